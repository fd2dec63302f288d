//go:build !linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// runLast gives the process the nice value 10, of 20, there being no class that waits for all others. What was started with a higher one keeps it.
func runLast(*ordinary) error {
	if is, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && is >= 10 {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 10); err != nil {
		return fmt.Errorf("a nice value of 10: %w", err)
	}
	return nil
}

// threadID says nothing: all threads have the same priority.
func threadID() int { return 0 }
