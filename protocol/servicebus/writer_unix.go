//go:build unix

package servicebus

import "syscall"

// try writes as much as the socket accepts at once and returns the number of bytes. It never waits.
// Small answers are sent this way: handing them to the writer's goroutine would cost more time than
// the write.
func (w *writer) try(buf []byte) (n int) {
	if w.raw == nil {
		return 0
	}
	w.clearDeadline()
	err := w.raw.Write(func(fd uintptr) bool {
		var err error
		if n, err = syscall.Write(int(fd), buf); err != nil {
			n = 0 // the writer gets the error again, and reports it
		}
		return true // never wait for room
	})
	if err != nil {
		return 0
	}
	return max(n, 0)
}
