// Package fixed has memory of a fixed size, for tests of what takes memory from a budget before it
// uses it.
package fixed

import "testing"

// Memory is memory of a fixed size, as log.Memory and host.Memory ask for it. What is given back
// must have been taken, or the test fails. It is for one goroutine.
type Memory struct {
	T     testing.TB
	All   int // bytes there are
	Taken int // bytes that are taken or owed
}

// Take takes n bytes if there are as many.
func (m *Memory) Take(n int) bool {
	if m.Taken+n > m.All {
		return false
	}
	m.Taken += n
	return true
}

// Owe takes n bytes whether there are as many or not.
func (m *Memory) Owe(n int) { m.Taken += n }

// Give gives n bytes back.
func (m *Memory) Give(n int) {
	if m.Taken -= n; m.Taken < 0 {
		m.T.Errorf("%d bytes more are given back than were taken", -m.Taken)
	}
}

// Exceeds reports whether more is taken than there is.
func (m *Memory) Exceeds(int) bool { return m.Taken > m.All }
