//go:build !linux && !darwin && !freebsd

package main

// machineMemory is how much memory the machine has; 0: it cannot be told.
func machineMemory() uint64 { return 0 }
