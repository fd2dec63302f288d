package budget

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
)

// The formula of docs/guide/settings.md: with as much in use as the account allows, memory grows by
// GOGC percent before the collector runs, and never beyond the memory limit, whatever GOGC is. So
// the account follows the limit, and need not know GOGC.
func TestLimitBoundsGarbage(t *testing.T) {
	t.Parallel()
	const limit, inUse = 128 << 20, 64 << 20
	const child = "LEDGERBUS_TEST_GARBAGE"
	if b := New(limit, slog.New(slog.DiscardHandler)); b.usable != inUse {
		t.Fatalf("%d bytes may be in use", b.usable)
	}
	if os.Getenv(child) != "" {
		held := make([]byte, inUse)
		runtime.GC()
		goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(goal)
		fmt.Printf("goal=%d\n", goal[0].Value.Uint64())
		runtime.KeepAlive(held)
		return
	}
	for _, c := range []struct {
		gogc, limit string
		least, most uint64 // bytes at which the collector runs
	}{
		{"10", "off", inUse, inUse * 12 / 10},
		{"100", "off", inUse * 2, inUse * 21 / 10},
		{"", "off", inUse * 2, inUse * 21 / 10},
		{"300", "off", inUse * 4, inUse * 42 / 10},
		{"off", "off", 1 << 60, math.MaxUint64},
		{"10", "128MiB", inUse, inUse * 12 / 10},
		{"100", "128MiB", limit * 8 / 10, limit},
		{"300", "128MiB", limit * 8 / 10, limit},
		{"off", "128MiB", limit * 8 / 10, limit},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1", "GOGC="+c.gogc, "GOMEMLIMIT="+c.limit)
		out, err := cmd.CombinedOutput()
		said := regexp.MustCompile(`goal=(\d+)`).FindSubmatch(out)
		if err != nil || said == nil {
			t.Fatalf("%v\n%s", err, out)
		}
		goal, err := strconv.ParseUint(string(said[1]), 10, 64)
		if err != nil || goal < c.least || goal > c.most {
			t.Errorf("GOGC=%s GOMEMLIMIT=%s: collected at %d MiB, %v; want %d to %d", c.gogc, c.limit, goal>>20, err, c.least>>20, c.most>>20)
		}
	}
}
