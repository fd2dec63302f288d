package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// All threads may wake up late, the runtime's monitor among them; what the process was started with stands. This is so in a process of which no broker has
// set anything before.
func TestSlack(t *testing.T) {
	const alone = "LEDGERBUS_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "--- SKIP") {
			t.Skip(string(out))
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	runtime.LockOSThread() // what it has is what is asked for
	defer runtime.UnlockOSThread()
	slacks := func() (all []string) {
		if err := eachThread(func(id int) error {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", id))
			if err == nil {
				all = append(all, strings.TrimSpace(string(text)))
			}
			return err
		}); errors.Is(err, fs.ErrPermission) {
			t.Skip("it may not see what other threads have")
		} else if err != nil {
			t.Fatal(err)
		}
		return all
	}
	set := func(ns int) {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ns), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	set(70_000)
	before := slacks()
	allowSlack()
	if after := slacks(); strings.Contains(strings.Join(after, " "), "500000") {
		t.Errorf("somebody has set %v, and it is %v", before, after)
	}
	set(int(defaultSlack.Nanoseconds()))
	allowSlack()
	for _, s := range slacks() {
		if s != "500000" {
			t.Errorf("a thread may be %s ns late, not 500000", s)
		}
	}
}
