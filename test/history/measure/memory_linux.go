package main

import (
	"os"
	"syscall"
)

// memoryOf is the most that a process had in memory, MiB.
func memoryOf(p *os.ProcessState) int64 {
	if usage, ok := p.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss >> 10
	}
	return 0
}
