package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspendedTime returns how long the machine has slept since it was started: CLOCK_BOOTTIME
// advances during sleep, CLOCK_MONOTONIC does not (reliability.md 1.4). Any kernel of this century
// can read both; if a reading fails, no sleep is assumed.
func suspendedTime() time.Duration {
	var awake, all, again unix.Timespec
	for range 3 { // repeated if it was interrupted
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
