package main

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// eachThread calls do for every thread of the process until there is no new one: one may begin another before its turn comes, which inherits what is set
// afterwards. A thread that ends meanwhile is no error.
func eachThread(do func(id int) error) error {
	for done, before := 0, -1; done != before; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		before, done = done, 0
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := do(id); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			done++
		}
	}
	return nil
}
