package event

import (
	"cmp"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/quantity"
)

// Retention is how long settled data is kept: a time, in ms, or one of the words below. The zero
// value means unset.
type Retention int64

const (
	KeepNone    Retention = -1 // nothing is kept
	KeepForever Retention = -2 // everything is kept
	// maxRetention is the longest time; data to be kept longer is kept for ever.
	maxRetention = Retention(36500 * day)
)

const day = 24 * time.Hour / time.Millisecond

// Retentions are the durations that a retention may have.
var Retentions = quantity.Durations{Least: time.Millisecond, Most: time.Duration(maxRetention) * time.Millisecond, None: true, Unlimited: true}

// KeepFor returns the retention for a duration, cut to whole milliseconds.
func KeepFor(d time.Duration) Retention { return Retention(d / time.Millisecond) }

// String returns the retention as [ParseRetention] reads it: 7d, 1d12h, none, unlimited; "" if it
// is unset.
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

// UnmarshalText implements [encoding.TextUnmarshaler]; an empty text means unset.
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

// Over reports whether data that has been unused since an instant may be removed.
func (r Retention) Over(since, now Time) bool {
	switch {
	case r == KeepNone:
		return true
	case r <= 0:
		return false
	}
	return now-since >= Time(r) && now > since
}

// Longer returns the longer one of two.
func (r Retention) Longer(s Retention) Retention {
	if r == KeepForever || s == KeepForever {
		return KeepForever
	}
	return max(r, s)
}

// HistoryPolicy is how long history is kept. Unset fields are left to a less specific policy.
type HistoryPolicy struct {
	Events Retention // of events that no longer affect the state
	Bodies Retention // of bodies of settled messages
	// of messages that were removed without having been received: bodies, and the events about them
	Undo Retention
}

// IsZero reports whether no field is set.
func (p HistoryPolicy) IsZero() bool { return p == HistoryPolicy{} }

// Or returns the policy, with unset fields taken from another one.
func (p HistoryPolicy) Or(q HistoryPolicy) HistoryPolicy {
	return HistoryPolicy{cmp.Or(p.Events, q.Events), cmp.Or(p.Bodies, q.Bodies), cmp.Or(p.Undo, q.Undo)}
}

// HistoryPolicySet sets how long history is kept, of the entities that a pattern matches or of the
// namespace. Its origin says who set the policy, and the [ReasonGiven] after it says why. It is in
// the log of partition 0.
//
//event:kind 55 verb=history-kept with=policies
type HistoryPolicySet struct {
	Envelope
	Pattern string // "": of the namespace
	Removed bool   // the policy of the pattern is removed
	Policy  HistoryPolicy
	// The fields below are set only for the namespace.
	Share       uint32 // percent of the disk that all history together may take; 0: unset
	BeforeSends bool   // history is kept even when sends must be refused for lack of room
	Since       Time   // in a base only: when the first policy was set
}

// A retention is stored as a number that is never negative: 0 unset, 1 none, 2 unlimited, else 2
// more than the milliseconds.

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

// AppendHistoryPolicy appends the binary form of a policy, without its origin.
func AppendHistoryPolicy(dst []byte, h *HistoryPolicySet) []byte {
	e := encoder{dst: dst}
	h.encode(&e)
	return e.dst
}

// ReadHistoryPolicy reads a policy as [AppendHistoryPolicy] wrote it, and returns the rest of src.
func ReadHistoryPolicy(src []byte) (h HistoryPolicySet, rest []byte, err error) {
	d := decoder{src: src}
	h.decode(&d)
	return h, d.src, d.err
}
