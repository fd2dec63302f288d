//go:build !linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// runLast does nothing: there is no class that waits for all others.
func runLast() error { return nil }

// runNice gives the process the nice value 10, of 20. What was started with a higher one keeps it.
func runNice() error {
	if is, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && is >= 10 {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 10); err != nil {
		return fmt.Errorf("a nice value of 10: %w", err)
	}
	return nil
}
