package listen

import (
	"net"
	"syscall"
)

// acknowledge sends the acknowledgement that the kernel would delay by up to 40 ms to save a
// packet. The socket option does not last: the next write undoes it, so acknowledge is called each
// time (tcp(7), TCP_QUICKACK).
func acknowledge(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	// a connection that is not a TCP socket, or is closed, has nothing to acknowledge
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
}
