package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how much later than asked for the kernel may wake a thread that sleeps. The runtime's monitor sleeps 20 µs at a time while there is
// anything for it to do, as beside a sync there always is; with Linux's 50 µs that is a tenth of the broker's processor time, and more for a lone sender
// (docs/decisions/0073).
const timerSlack = 500 * time.Microsecond

// defaultSlack is what the kernel gives to a process of which nobody has said anything.
const defaultSlack = 50 * time.Microsecond

// allowSlack has all threads wake up timerSlack late at most, unless whoever started the process has set something else. The monitor began before anything
// of ours, and a thread may set that of others with CAP_SYS_NICE alone: without it the process has to be started with it, as by TimerSlackNSec of systemd.
func allowSlack() {
	is, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || time.Duration(is) != defaultSlack {
		return
	}
	text := []byte(strconv.FormatInt(timerSlack.Nanoseconds(), 10))
	err = eachThread(func(id int) error { return os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", id), text, 0) })
	if err != nil {
		slog.Debug("timers are as exact as the kernel has them, which takes processor time", "error", err)
	}
}
