package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine has slept since it was started: CLOCK_BOOTTIME goes on
// meanwhile and CLOCK_MONOTONIC does not (reliability.md 1.4). Both readings of a kernel of this
// century succeed; without them no sleep is known of.
func suspended() time.Duration {
	var awake, all, again unix.Timespec
	for range 3 { // not interrupted in between
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &again) != nil {
			return 0
		}
		if again.Nano()-awake.Nano() < int64(ignoredSleep)/4 {
			break
		}
	}
	return time.Duration(all.Nano() - awake.Nano())
}
