//go:build !linux

package listen

import "net"

// acknowledge does nothing on this system: the kernel decides how long acknowledgements wait.
func acknowledge(net.Conn) {}
