package host

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxBehind is how far the wall clock may be behind the newest record at a start.
	maxBehind = time.Hour
	// maxGap is the default of how far the wall clock may be ahead of the newest record: longer
	// than a broker is usually down.
	maxGap = 400 * 24 * time.Hour
	// notableGap is the distance between the clock and the newest record from which it is reported,
	// and an operator's decision counts.
	notableGap = event.Time(10 * time.Minute / time.Millisecond)
)

// AcceptClock is an operator's decision for a start at which the wall clock and the log are far
// apart.
type AcceptClock uint8

const (
	AcceptNone AcceptClock = iota // no decision: a start with such a clock is refused
	AcceptLog                     // trust the log: broker time continues from the newest record
	// trust the clock: broker time is set to it, and every instant moves by the difference
	AcceptWall
)

// ClockRules decide which wall clocks a start accepts (reliability.md 1.4).
type ClockRules struct {
	// time when the program was built: a clock that shows an earlier time is wrong. Zero: no bound
	Earliest time.Time
	MaxGap   time.Duration // how far the clock may be ahead of the newest record; 0: 400 days
	Reason   string        // reason for Accept, for the log; see [engine.CheckReason]
	// decision about a clock that is refused, or that is more than ten minutes from the newest
	// record; no effect on any other clock
	Accept AcceptClock
}

// ClockError refuses a wall clock. Nothing was written.
type ClockError struct {
	Wall   time.Time
	Newest event.Time // time of the newest record of the log; 0: the log is empty
	Reason string
	// Remedies are what an operator can do besides setting the clock; nil: nothing.
	Remedies []string
}

func (e *ClockError) Error() string {
	text := fmt.Sprintf("the machine's clock shows %s, %s; set the clock", clockText(e.Wall), e.Reason)
	if len(e.Remedies) > 0 {
		text += ", or start once with " + strings.Join(e.Remedies, ", or with ")
	}
	return text
}

func clockText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Texts of the flags for an operator's decision, as on the command line.
const (
	acceptLogText  = "--accept-clock=log to continue from the newest event in the log"
	acceptWallText = "--accept-clock=wall to set broker time to the clock and move all open deadlines with it"
)

// Early refuses a clock that is wrong whatever the log says. The error is a [*ClockError].
func (r ClockRules) Early(wall time.Time) error {
	reason := r.impossibleClock(wall)
	if reason == "" {
		return nil
	}
	return &ClockError{Wall: wall, Reason: reason, Remedies: []string{acceptLogText}}
}

// impossibleClock says why a clock is wrong whatever the log says; "": it may be right.
func (r ClockRules) impossibleClock(wall time.Time) string {
	switch at := event.TimeOf(wall); {
	case wall.Before(r.Earliest):
		return "before this program was built on " + clockText(r.Earliest)
	case at <= 0 || at >= event.EndOfTime:
		return "which is outside the range of times in a log"
	}
	return ""
}

// ClockStart says how broker time begins.
type ClockStart struct {
	At event.Time // the earliest it may begin at
	// distance from the newest record to the wall clock, if it is treated as a notable downtime;
	// else 0
	Gap time.Duration
	// Decided is the operator's decision, if it had an effect; else AcceptNone.
	Decided AcceptClock
	// Sets are the events that record the decision, by partition; nil where the partition needs
	// none. They include a decision that an earlier start could not apply everywhere. The event of
	// partition 0 must be durable before any other is written.
	Sets []*event.ClockSet

	last index.Clock // the newest decision
}

// Clock returns broker time from here on.
func (s *ClockStart) Clock(source TimeSource, logger *slog.Logger) *Clock {
	if s.Decided != AcceptNone {
		return NewClockAt(source, s.At, logger)
	}
	return NewClock(source, s.At, logger)
}

// Begin checks the clock of a start against the recovered state of each partition, nil where there
// is none. It writes nothing. The error is a [*ClockError].
func (r ClockRules) Begin(wall time.Time, states []*index.Index) (ClockStart, error) {
	last := newestClock(states)
	newest := event.Time(0)
	for _, x := range states {
		if x != nil && x.LastAt() != 0 { // in the time of the newest decision
			newest = max(newest, x.LastAt()+event.Time(last.Shift-x.Clock().Shift))
		}
	}
	now := event.TimeOf(wall)
	s := ClockStart{At: max(now, newest)}
	refused := r.checkClock(wall, newest)
	apart := newest != 0 && (now-newest > notableGap || newest-now > notableGap)
	if refused != nil || apart && r.Accept != AcceptNone {
		switch {
		case r.Accept == AcceptLog && newest != 0:
			s.At = newest
		case r.Accept == AcceptWall && r.impossibleClock(wall) == "":
			s.At = now
			last.Shift += int64(now - newest)
		default:
			return ClockStart{}, refused
		}
		s.Decided = r.Accept
		last.Number++
	} else if apart && now > newest {
		s.Gap = now.Sub(newest)
	}
	basis := map[AcceptClock]event.ClockBasis{AcceptNone: event.BasisCatalogue, AcceptLog: event.BasisLog, AcceptWall: event.BasisWall}[s.Decided]
	s.last, s.Sets = last, make([]*event.ClockSet, len(states))
	for i, x := range states {
		if x == nil || x.Clock().Number == last.Number {
			continue
		}
		to := s.At
		if s.Decided == AcceptNone {
			to = newest // only the earlier decision is applied
		}
		s.Sets[i] = &event.ClockSet{Number: last.Number, Basis: basis, To: to, From: to - event.Time(last.Shift-x.Clock().Shift), Wall: max(now, 0)}
	}
	return s, nil
}

// Follow returns the event by which a partition that was away at the start catches up with the
// decisions about clocks; nil: it knows them.
func (s *ClockStart) Follow(x *index.Index, now event.Time, wall time.Time) *event.ClockSet {
	if x.Clock().Number == s.last.Number {
		return nil
	}
	ahead := event.Time(s.last.Shift - x.Clock().Shift)
	to := now
	if x.LastAt() != 0 {
		to = x.LastAt() + ahead
	}
	return &event.ClockSet{Number: s.last.Number, Basis: event.BasisCatalogue, To: to, From: to - ahead, Wall: max(event.TimeOf(wall), 0)}
}

// newestClock returns the newest decision that any partition has recorded.
func newestClock(states []*index.Index) (c index.Clock) {
	for _, x := range states {
		if x != nil && x.Clock().Number > c.Number {
			c = x.Clock()
		}
	}
	return c
}

// checkClock returns why a clock is refused; nil: it is accepted.
func (r ClockRules) checkClock(wall time.Time, newest event.Time) *ClockError {
	e := &ClockError{Wall: wall, Newest: newest, Reason: r.impossibleClock(wall)}
	gap := r.MaxGap
	if gap == 0 {
		gap = maxGap
	}
	switch off := event.TimeOf(wall) - newest; {
	case e.Reason != "":
		if newest != 0 {
			e.Remedies = []string{acceptLogText}
		}
	case newest == 0:
		return nil
	case off < -event.Time(maxBehind/time.Millisecond):
		e.Reason = fmt.Sprintf("%s before the newest event in the log (%s)", spanText(-off), clockText(newest.Std()))
		e.Remedies = []string{acceptWallText, acceptLogText}
	case off > event.Time(gap/time.Millisecond):
		e.Reason = fmt.Sprintf("%s after the newest event in the log (%s), more than clock.max-gap allows", spanText(off), clockText(newest.Std()))
		e.Remedies = []string{acceptLogText, acceptWallText}
	default:
		return nil
	}
	return e
}

// spanText formats a length of time, ms, for people. A [time.Duration] cannot hold all of them.
func spanText(ms event.Time) string {
	const day = 24 * 60 * 60 * 1000
	if ms >= 2*day {
		return fmt.Sprintf("%d days", ms/day)
	}
	return ms.Sub(0).Round(time.Second).String()
}

// reportClock logs how broker time begins. It returns the notices for the operator, usually none.
func (n *Namespace) reportClock(s ClockStart, r ClockRules, wall time.Time) (notices []string) {
	to := s.At.Std()
	switch {
	case s.Decided == AcceptLog:
		n.logger.Warn("clock accepted: broker time continues from the log; set the clock before the next start", "clock", wall, "broker_time", to)
		notices = append(notices, fmt.Sprintf("The clock showed %s when the broker started; broker time continued from the log at %s.", clockText(wall), clockText(to)))
	case s.Decided == AcceptWall:
		n.logger.Warn("clock accepted: broker time and all deadlines moved to it", "broker_time", to)
		notices = append(notices, fmt.Sprintf("Broker time was set to the clock, %s, when the broker started.", clockText(to)))
	case s.Gap != 0:
		newest := to.Add(-s.Gap)
		n.logger.Warn("clock ahead of the newest event in the log: the broker was stopped or idle, or the clock is wrong; expired messages and locks end now",
			"gap", s.Gap, "newest", newest, "clock", wall)
		notices = append(notices, fmt.Sprintf("The clock is %s ahead of the newest event in the log (%s): the broker was stopped or idle, or the clock is wrong. Messages and locks that have expired end with this start.",
			spanText(event.Time(s.Gap/time.Millisecond)), clockText(newest)))
	}
	needed := s.Decided != AcceptNone || r.Accept == AcceptNone
	for i, set := range s.Sets {
		if set != nil && set.Basis == event.BasisCatalogue {
			n.logger.Warn("partition applies an earlier decision about the clock", "partition", i, "from", set.From.Std(), "to", set.To.Std())
			needed = true
		}
	}
	if !needed {
		n.logger.Warn("accept-clock was not needed at this start; remove it, because it takes effect when the clock is wrong")
		notices = append(notices, "accept-clock was not needed at this start. Remove it: it takes effect when the clock is wrong.")
	}
	return notices
}
