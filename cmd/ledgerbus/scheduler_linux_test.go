package main

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// As many places as there are processors, and one: also when the processors the process may use have become fewer or more since.
func TestSlotsFollowTheProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	runtime.LockOSThread() // what it may use is what the runtime asks
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Skip(err)
	}
	for i := range 1024 {
		if all.IsSet(i) {
			one.Set(i)
			break
		}
	}
	defer func() {
		if err := unix.SchedSetaffinity(0, &all); err != nil {
			t.Error(err)
		}
	}()
	runtime.SetDefaultGOMAXPROCS()
	whole := runtime.GOMAXPROCS(0) // all, or what a container's limit leaves
	for _, c := range []struct {
		may  *unix.CPUSet
		want int
	}{{&all, whole + 1}, {&all, whole + 1}, {&one, 2}, {&all, whole + 1}} {
		if err := unix.SchedSetaffinity(0, c.may); err != nil {
			t.Skip(err)
		}
		spareSlots()
		if got := runtime.GOMAXPROCS(0); got != c.want {
			t.Errorf("%d of %d processors: %d places, not %d", c.may.Count(), whole, got, c.want)
		}
	}
	t.Setenv("GOMAXPROCS", "7")
	spareSlots()
	if got := runtime.GOMAXPROCS(0); got != whole+1 {
		t.Errorf("turned off, and there are %d places", got)
	}
}
