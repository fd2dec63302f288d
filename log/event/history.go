package event

import (
	"cmp"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/quantity"
)

// Retention is how long something is kept that nobody needs any more: a time, in ms, or one of the
// words below. The zero value says nothing.
type Retention int64

const (
	KeepNone    Retention = -1 // nothing is kept
	KeepForever Retention = -2 // everything is kept
	// maxRetention is the longest time; what is to be kept longer is kept for ever.
	maxRetention = Retention(36500 * day)
)

const day = 24 * time.Hour / time.Millisecond

// Retentions are the durations that a retention may have.
var Retentions = quantity.Durations{Least: time.Millisecond, Most: time.Duration(maxRetention) * time.Millisecond, None: true, Unlimited: true}

// KeepFor is the retention for a duration, cut to whole milliseconds.
func KeepFor(d time.Duration) Retention { return Retention(d / time.Millisecond) }

// String prints the retention as [ParseRetention] reads it: 7d, 1d12h, none, unlimited; "" where it
// says nothing.
func (r Retention) String() string {
	switch {
	case r == 0:
		return ""
	case r == KeepNone:
		return quantity.FormatDuration(quantity.None)
	case r < 0:
		return quantity.FormatDuration(quantity.Unlimited)
	}
	return quantity.FormatDuration(time.Duration(r) * time.Millisecond)
}

// MarshalText makes retentions readable in JSON.
func (r Retention) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; an empty text says nothing.
func (r *Retention) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = 0
		return nil
	}
	*r, err = ParseRetention(string(text))
	return err
}

// ParseRetention reads a duration of at least a millisecond, none or unlimited.
func ParseRetention(text string) (Retention, error) {
	d, err := Retentions.Parse(text)
	switch {
	case err != nil:
		return 0, err
	case d == quantity.None:
		return KeepNone, nil
	case d == quantity.Unlimited:
		return KeepForever, nil
	}
	return KeepFor(d), nil
}

// Over reports whether something that has been of no use since an instant need not be kept any
// longer.
func (r Retention) Over(since, now Time) bool {
	switch {
	case r == KeepNone:
		return true
	case r <= 0:
		return false
	}
	return now-since >= Time(r) && now > since
}

// Longer is the longer one of two.
func (r Retention) Longer(s Retention) Retention {
	if r == KeepForever || s == KeepForever {
		return KeepForever
	}
	return max(r, s)
}

// HistoryPolicy is how long history is kept. What it says nothing about is left to a less specific
// policy.
type HistoryPolicy struct {
	Events Retention // that have no effect on the state any more
	Bodies Retention // of messages that are over
	// of what was removed without having been received: bodies, and the events that say what it was
	Undo Retention
}

// IsZero reports whether it says nothing.
func (p HistoryPolicy) IsZero() bool { return p == HistoryPolicy{} }

// Or is the policy, with what it says nothing about taken from another one.
func (p HistoryPolicy) Or(q HistoryPolicy) HistoryPolicy {
	return HistoryPolicy{cmp.Or(p.Events, q.Events), cmp.Or(p.Bodies, q.Bodies), cmp.Or(p.Undo, q.Undo)}
}

// HistoryPolicySet says how long history is kept, of the entities that a pattern matches or of the
// namespace. Its origin says who set the policy, and the [ReasonGiven] behind it why. It stands in
// the log of partition 0.
//
//event:kind 55 verb=history-kept with=policies
type HistoryPolicySet struct {
	Envelope
	Pattern string // "": of the namespace
	Removed bool   // there is none for the pattern from now on
	Policy  HistoryPolicy
	// The rest is said of the namespace alone.
	Share       uint32 // percent of the disk that all history together may take; 0: it says nothing
	BeforeSends bool   // history is kept even when sends have to be refused for want of room
	Since       Time   // in a base alone: when the first policy was set
}

// A retention is stored as a number that is never negative: 0 nothing is said, 1 none, 2 unlimited,
// else 2 more than the milliseconds.

func (e *encoder) retention(r Retention) { e.uvarint(r.stored()) }

func (d *decoder) retention() Retention {
	stored := d.uvarint()
	r, ok := retentionOf(stored)
	if !ok {
		d.fail("invalid retention %d", stored)
	}
	return r
}

func (r Retention) stored() uint64 {
	if r > 0 {
		return uint64(r) + 2
	}
	return uint64(-r)
}

func retentionOf(stored uint64) (Retention, bool) {
	if stored > 2 {
		return Retention(stored - 2), stored <= uint64(maxRetention)+2
	}
	return -Retention(stored), true
}

// AppendHistoryPolicy appends the binary form of what a policy says, without who said it.
func AppendHistoryPolicy(dst []byte, h *HistoryPolicySet) []byte {
	e := encoder{dst: dst}
	h.encode(&e)
	return e.dst
}

// ReadHistoryPolicy reads what [AppendHistoryPolicy] wrote and returns what follows it.
func ReadHistoryPolicy(src []byte) (h HistoryPolicySet, rest []byte, err error) {
	d := decoder{src: src}
	h.decode(&d)
	return h, d.src, d.err
}
