package host

import "time"

// ignoredSleep is the longest sleep of the machine that is taken for none, and so the longest that
// broker time may lose by one.
const ignoredSleep = 20 * time.Millisecond

// systemTime is the time source of the machine. It belongs to one [Clock].
//
// The monotonic clock of package time stands still while the machine is suspended, and the clock
// that does not costs a system call. So that is asked only when the wall clock moved against the
// monotonic one, as it does when the machine wakes up, and once a minute.
type systemTime struct {
	begun  time.Time
	before time.Duration // how long the machine had slept by then
	slept  time.Duration // since
	// by which the wall clock had moved against the monotonic one at the last look
	skew   time.Duration
	looked time.Duration // when that was, since begun
}

func newSystemTime() *systemTime { return &systemTime{begun: time.Now(), before: suspended()} }

func (s *systemTime) Wall() time.Time { return time.Now() }

func (s *systemTime) Elapsed() time.Duration {
	now := time.Now()
	awake := now.Sub(s.begun)
	skew := now.Round(0).Sub(s.begun.Round(0)) - awake
	if d := skew - s.skew; d > ignoredSleep || d < -ignoredSleep || awake-s.looked > time.Minute {
		s.skew, s.looked = skew, awake
		if more := suspended() - s.before - s.slept; more > ignoredSleep {
			s.slept += more
		}
	}
	return awake + s.slept
}
