//go:build !linux

package listen

import "net"

// acknowledge does nothing here: how long acknowledgements wait is the kernel's own business.
func acknowledge(net.Conn) {}
