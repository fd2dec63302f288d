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
	// maxBehind is how far behind the newest record the wall clock may be at a start.
	maxBehind = time.Hour
	// maxGap is how far ahead of it the clock may be, unless settings say otherwise: longer than a
	// broker is usually down.
	maxGap = 400 * 24 * time.Hour
	// notable is the distance between clock and newest record from which on it is reported, and an
	// operator's decision counts.
	notableGap = event.Time(10 * time.Minute / time.Millisecond)
)

// AcceptClock is what an operator believes when the wall clock and the log are apart.
type AcceptClock uint8

const (
	AcceptNone AcceptClock = iota // neither: a start with such a clock is refused
	AcceptLog                     // the log: broker time goes on from the newest record
	// the clock: broker time is set to it, and every instant moves by the difference
	AcceptWall
)

// ClockRules say with which wall clock a start goes on (reliability.md 1.4).
type ClockRules struct {
	// a clock that shows less is wrong: the program was not made yet. Zero: no bound
	Earliest time.Time
	MaxGap   time.Duration // how far the clock may be ahead of the newest record; 0: 400 days
	Reason   string        // why Accept is given, for the log; see [engine.CheckReason]
	// what is done about a clock that is refused, or over ten minutes from the newest record; no
	// effect on any other
	Accept AcceptClock
}

// ClockError is the refusal of a wall clock. Nothing was written.
type ClockError struct {
	Wall   time.Time
	Newest event.Time // record of the log; 0: there is none
	Reason string
	// Remedies are what an operator can do beside setting the clock; nil: nothing.
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

// The flags of an operator's decision, as the command line has them.
const (
	acceptLogText  = "--accept-clock=log to continue from the newest event in the log"
	acceptWallText = "--accept-clock=wall to set broker time to the clock and move all open deadlines with it"
)

// Early refuses a clock that cannot be right, whatever stands in the log. The error is a
// [*ClockError].
func (r ClockRules) Early(wall time.Time) error {
	reason := r.impossibleClock(wall)
	if reason == "" {
		return nil
	}
	return &ClockError{Wall: wall, Reason: reason, Remedies: []string{acceptLogText}}
}

// impossibleClock says why a clock cannot be right, whatever stands in the log.
func (r ClockRules) impossibleClock(wall time.Time) string {
	switch at := event.TimeOf(wall); {
	case wall.Before(r.Earliest):
		return "before this program was built on " + clockText(r.Earliest)
	case at <= 0 || at >= event.EndOfTime:
		return "which is outside the range of times in a log"
	}
	return ""
}

// ClockStart is how broker time begins.
type ClockStart struct {
	At event.Time // the earliest it may begin at
	// by which the wall clock is ahead of the newest record, when that is taken for a notable
	// downtime; else 0
	Gap time.Duration
	// Decided is the operator's word where it counted; AcceptNone: it did not, or there was none.
	Decided AcceptClock
	// Sets are the events that say so, by partition; nil where the partition needs none. Those of a
	// decision that an earlier start could not carry out everywhere are among them. That of
	// partition 0 must be durable before any other is written.
	Sets []*event.ClockSet

	last index.Clock // the newest decision
}

// Clock is broker time from here on.
func (s *ClockStart) Clock(source TimeSource, logger *slog.Logger) *Clock {
	if s.Decided != AcceptNone {
		return NewClockAt(source, s.At, logger)
	}
	return NewClock(source, s.At, logger)
}

// Begin looks at the clock of a start, with the recovered state of each partition, nil where there
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
			to = newest // only what was left over is caught up with
		}
		s.Sets[i] = &event.ClockSet{Number: last.Number, Basis: basis, To: to, From: to - event.Time(last.Shift-x.Clock().Shift), Wall: max(now, 0)}
	}
	return s, nil
}

// Follow is the event by which a partition that was not there at the start catches up with the
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

// newestClock is the newest decision that any partition knows of.
func newestClock(states []*index.Index) (c index.Clock) {
	for _, x := range states {
		if x != nil && x.Clock().Number > c.Number {
			c = x.Clock()
		}
	}
	return c
}

// checkClock says why a clock is refused; nil when it is not.
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
		e.Reason = fmt.Sprintf("%s after the newest event in the log (%s), more than clock-max-gap allows", spanText(off), clockText(newest.Std()))
		e.Remedies = []string{acceptLogText, acceptWallText}
	default:
		return nil
	}
	return e
}

// spanText is a length of time, ms, for people; a [time.Duration] cannot hold all of them.
func spanText(ms event.Time) string {
	const day = 24 * 60 * 60 * 1000
	if ms >= 2*day {
		return fmt.Sprintf("%d days", ms/day)
	}
	return ms.Sub(0).Round(time.Second).String()
}

// reportClock says in the log how broker time begins, and returns what has to be reported
// elsewhere, too: usually nothing.
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
