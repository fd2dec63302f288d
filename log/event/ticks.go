package event

import "time"

// Ticks are the time unit of .NET, and so of Service Bus: units of 100 ns, for an instant since the
// beginning of year 1 UTC.
const (
	Tick                = 100 * time.Nanosecond
	TicksPerMillisecond = 10_000
	TicksPerSecond      = 10_000_000
	// MaxTicks is the last tick of year 9999.
	MaxTicks = 3_155_378_975_999_999_999

	epochTicks = 621_355_968_000_000_000 // 1970
)

// Ticks returns t in ticks since year 1.
func (t Time) Ticks() int64 { return int64(t)*TicksPerMillisecond + epochTicks }

// FromTicks rounds an instant in ticks since year 1 down to the millisecond.
func FromTicks(ticks int64) Time {
	n := ticks - epochTicks
	ms := n / TicksPerMillisecond
	if n%TicksPerMillisecond < 0 {
		ms--
	}
	return Time(ms)
}

// StdFromTicks returns an instant in ticks since year 1 as a standard time in UTC, without
// rounding.
func StdFromTicks(ticks int64) time.Time {
	n := ticks - epochTicks
	return time.Unix(n/TicksPerSecond, n%TicksPerSecond*int64(Tick)).UTC()
}

// InstantOf returns t as a value of a rule or a property, cut to the years 1 to 9999.
func InstantOf(t Time) Value {
	const first Time = -epochTicks / TicksPerMillisecond
	return Value{Type: Instant, Bits: uint64(min(max(t, first), EndOfTime).Ticks())}
}
