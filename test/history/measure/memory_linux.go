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

// ownMemory is the most that this process had, MiB.
func ownMemory() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss >> 10
}
