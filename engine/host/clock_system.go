package host

import "time"

// ignoredSleep is the longest sleep of the machine that is ignored. Broker time may lose that much
// by each sleep.
const ignoredSleep = 20 * time.Millisecond

// systemTime reads the clocks of the machine. It belongs to one [Clock].
//
// The monotonic clock of package time stops while the machine is suspended, and a clock that does
// not stop costs a system call. So the latter is read only once a minute, and when the wall clock
// has moved against the monotonic one, as it does when the machine wakes up.
type systemTime struct {
	begun  time.Time
	before time.Duration // time slept before begun
	slept  time.Duration // time slept since begun
	// difference between wall clock and monotonic clock at the last check
	skew   time.Duration
	looked time.Duration // time of the last check, since begun
}

func newSystemTime() *systemTime { return &systemTime{begun: time.Now(), before: suspendedTime()} }

func (s *systemTime) Wall() time.Time { return time.Now() }

func (s *systemTime) Elapsed() time.Duration {
	now := time.Now()
	awake := now.Sub(s.begun)
	skew := now.Round(0).Sub(s.begun.Round(0)) - awake
	if d := skew - s.skew; d > ignoredSleep || d < -ignoredSleep || awake-s.looked > time.Minute {
		s.skew, s.looked = skew, awake
		if more := suspendedTime() - s.before - s.slept; more > ignoredSleep {
			s.slept += more
		}
	}
	return awake + s.slept
}
