package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A command that follows lets everything else on the machine go first, all its threads, unless it is told not to.
func TestFollowerRunsLast(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	defer stop()
	for _, c := range []struct {
		args   []string
		policy uint32
	}{
		{[]string{"events", "-f", "--since", "1h"}, unix.SCHED_IDLE},
		{[]string{"events", "-f", "--since", "1h", "--priority", "normal"}, unix.SCHED_NORMAL},
	} {
		cmd := command(t, broker, c.args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !bufio.NewScanner(out).Scan() {
			t.Errorf("%q told nothing", c.args)
		}
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			attr, err := unix.SchedGetAttr(id, 0)
			if err == nil && attr.Policy != c.policy { // a thread may have ended
				t.Errorf("%q: a thread has policy %d, not %d", c.args, attr.Policy, c.policy)
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
