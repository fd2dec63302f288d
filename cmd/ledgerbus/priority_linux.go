package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// runLast puts every thread of the process into the scheduler's lowest class: it runs while nothing else wants the processor, and gives it up at once.
func runLast() error {
	return eachThread(func(id int) error {
		if err := unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
			return fmt.Errorf("the lowest class of the scheduler: %w", err)
		}
		return nil
	})
}

// runNice gives every thread of the process the nice value 10, of 19. What was started with a higher one keeps it.
func runNice() error {
	return eachThread(func(id int) error {
		if is, err := unix.SchedGetAttr(id, 0); err == nil && is.Nice >= 10 {
			return nil
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, 10); err != nil {
			return fmt.Errorf("a nice value of 10: %w", err)
		}
		return nil
	})
}
