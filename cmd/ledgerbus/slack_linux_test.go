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
	file := func(id int) string { return fmt.Sprintf("/proc/%d/timerslack_ns", id) }
	for _, c := range []struct{ was, want string }{{"70000", "70000"}, {"50000", "500000"}} {
		err := eachThread(func(id int) error { return os.WriteFile(file(id), []byte(c.was), 0) })
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("it may not say what other threads have")
		}
		if err != nil {
			t.Fatal(err)
		}
		allowSlack()
		if err := eachThread(func(id int) error {
			text, err := os.ReadFile(file(id))
			if is := strings.TrimSpace(string(text)); err == nil && is != c.want {
				t.Errorf("a thread that might be %s ns late may be %s, not %s", c.was, is, c.want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
