package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// runLast puts every thread of the process, but for one if there is one that keeps its class, into the scheduler's lowest class: it runs while nothing else wants the processor, and gives it up at once.
func runLast(but *ordinary) error {
	return eachThread(func(id int) error {
		if but != nil && id == but.id {
			return nil
		}
		if err := unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
			return fmt.Errorf("the lowest class of the scheduler: %w", err)
		}
		return nil
	})
}

// threadID is the number of the thread that runs this.
func threadID() int { return unix.Gettid() }
