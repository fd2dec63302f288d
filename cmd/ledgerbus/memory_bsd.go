//go:build darwin || freebsd

package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// machineMemory is how much memory the machine has, bytes; 0: it does not say.
func machineMemory() uint64 {
	name := "hw.memsize"
	if runtime.GOOS == "freebsd" {
		name = "hw.physmem"
	}
	n, err := unix.SysctlUint64(name)
	if err != nil {
		return 0
	}
	return n
}
