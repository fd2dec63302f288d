package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A mirror follows only the log that it started with, and no log that ends before the mirrored
// part.
func TestMirrorOfAnotherBroker(t *testing.T) {
	t.Parallel()
	long, short := startBroker(t, "partitions", "1"), startBroker(t, "partitions", "1")
	for range 3 {
		if r := execute(t, long, "", "send", "orders", "--body", strings.Repeat("long ", 1000)); r.code != 0 {
			t.Fatal(r.errOut)
		}
	}
	for name, order := range map[string][2]string{"that ends before": {long, short}, "that ends behind": {short, long}} {
		dir := filepath.Join(t.TempDir(), "mirror")
		if r := execute(t, order[0], "", "log", "mirror", "--into", dir, "--once"); r.code != 0 {
			t.Fatal(r.errOut)
		}
		for _, args := range [][]string{{"--once"}, {}} {
			r := execute(t, order[1], "", append([]string{"log", "mirror", "--into", dir}, args...)...)
			if r.code != 1 || !strings.Contains(r.errOut, "the mirror belongs to another log: namespace ") {
				t.Errorf("a log %s, %q: exit code %d, %s", name, args, r.code, r.errOut)
			}
		}
		if r := execute(t, order[0], "", "log", "mirror", "--into", dir, "--once"); r.code != 0 {
			t.Errorf("its own log after that: exit code %d, %s", r.code, r.errOut)
		}
	}
}
