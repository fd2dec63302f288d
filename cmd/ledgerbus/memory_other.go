//go:build !linux && !darwin && !freebsd

package main

// machineMemory returns 0: the memory of the machine is unknown.
func machineMemory() uint64 { return 0 }
