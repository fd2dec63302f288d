package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// All threads may wake up late, the runtime's monitor among them; what the process was started with stands.
func TestSlack(t *testing.T) {
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
