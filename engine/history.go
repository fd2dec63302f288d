package engine

import (
	"cmp"
	"context"
	"strings"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Histories is the engine for an operator who decides how long history is kept
// (docs/decisions/0049).
type Histories interface {
	// HistoryPolicies returns the current policies; nil: none was ever set. The caller must not
	// change them.
	HistoryPolicies() *HistoryPolicies
	// PutHistoryPolicy changes a policy. When it returns without an error the change is durable and
	// an event; a put that changes nothing makes no event. Refusals are [*Error]: [NotFound] if the
	// policy to remove does not exist.
	PutHistoryPolicy(ctx context.Context, cmd PutHistoryPolicy) error
}

// HistoryPolicies are the policies of the catalogue. They tell how long history is kept.
type HistoryPolicies = index.History

// PutHistoryPolicy tells how long history of the entities that a pattern matches is kept. It
// replaces the pattern's policy. Without a pattern it changes the policy of the namespace: only the
// given fields, the others stay.
type PutHistoryPolicy struct {
	Pattern string // see [CheckHistoryPattern]; "": the namespace
	Remove  bool   // remove the pattern's policy
	Policy  event.HistoryPolicy
	// Only for the namespace.
	Share       uint32 // percent of the disk; 0: not given
	BeforeSends HistoryBeforeSends
	Origin      *Origin
	Why         event.ReasonGiven
}

func (*PutHistoryPolicy) command() {}

// HistoryBeforeSends reports whether history is kept even if the broker then has to refuse sends
// for lack of disk space.
type HistoryBeforeSends uint8

const (
	BeforeSendsNotGiven HistoryBeforeSends = iota
	BeforeSendsNo
	BeforeSendsYes
)

// maxHistoryPolicies is the most patterns that may have a policy; a choice.
const maxHistoryPolicies = 1000

// Event returns the event that carries out a command, without its origin; nil: it would change
// nothing. The first policy of the namespace is an event even if it sets nothing: from its time on
// the defaults hold (docs/decisions/0061).
func (cmd *PutHistoryPolicy) Event(now *HistoryPolicies) (*event.HistoryPolicySet, *Error) {
	if cmd.Pattern == "" {
		return cmd.ofNamespace(now), nil
	}
	if err := CheckHistoryPattern(cmd.Pattern); err != nil {
		return nil, err
	}
	old, there := now.Pattern(cmd.Pattern)
	switch {
	case cmd.Remove && !there:
		return nil, Refuse(NotFound, "There is no history policy for '%s'.", cmd.Pattern)
	case cmd.Remove:
		return &event.HistoryPolicySet{Pattern: old.Pattern, Removed: true}, nil
	case cmd.Policy.IsZero():
		return nil, Refuse(InvalidArgument, "The policy for '%s' is empty; set at least one of events, bodies and undo.", cmd.Pattern)
	case !there && now != nil && len(now.Patterns) >= maxHistoryPolicies:
		return nil, Refuse(QuotaExceeded, "There are already %d policies, the maximum.", maxHistoryPolicies)
	case there && old.Policy == cmd.Policy:
		return nil, nil
	}
	return &event.HistoryPolicySet{Pattern: cmd.Pattern, Policy: cmd.Policy}, nil
}

func (cmd *PutHistoryPolicy) ofNamespace(now *HistoryPolicies) *event.HistoryPolicySet {
	var was index.NamespaceHistory
	if now != nil && now.Namespace != nil {
		was = *now.Namespace
	}
	is := index.NamespaceHistory{Policy: cmd.Policy.Or(was.Policy), Share: cmp.Or(cmd.Share, was.Share), BeforeSends: was.BeforeSends}
	if cmd.BeforeSends != BeforeSendsNotGiven {
		is.BeforeSends = cmd.BeforeSends == BeforeSendsYes
	}
	if is == was && now != nil {
		return nil
	}
	return &event.HistoryPolicySet{Policy: is.Policy, Share: is.Share, BeforeSends: is.BeforeSends}
}

// HistoryPolicies returns the policies in the catalogue, which partition 0 has; nil: none was ever
// set.
func (p *Partition) HistoryPolicies() *HistoryPolicies {
	p.onlyCatalogue()
	return p.index.Catalogue.History()
}

// putHistoryPolicy sets how long history is kept; see [PutHistoryPolicy].
func (c catalogueDecision) putHistoryPolicy(cmd *PutHistoryPolicy) *Error {
	is, err := cmd.Event(c.there.History())
	if is == nil {
		return err
	}
	origin := c.origin(cmd.Origin)
	ev := add[*event.HistoryPolicySet](c.decision, event.KindHistoryPolicySet)
	*ev = *is
	ev.Origin = origin
	c.because(cmd.Why, ev.Envelope)
	return nil
}

// maxHistoryPattern is the longest pattern, bytes: longer than any path.
const maxHistoryPattern = 512

// CheckHistoryPattern refuses a text that cannot be the pattern of a policy. A pattern is the path
// of an entity, in any letter case. A star in it matches any number of characters, including
// slashes and none.
func CheckHistoryPattern(pattern string) *Error {
	switch {
	case pattern == "":
		return Refuse(InvalidArgument, "The pattern is empty; * matches every entity.")
	case len(pattern) > maxHistoryPattern:
		return Refuse(InvalidArgument, "The pattern has %d bytes; at most %d are allowed.", len(pattern), maxHistoryPattern)
	case strings.Contains(pattern, "**"):
		return Refuse(InvalidArgument, "The pattern contains **; one star means the same.")
	case strings.HasPrefix(pattern, "/") || strings.HasSuffix(pattern, "/") || strings.Contains(pattern, "//"):
		return Refuse(InvalidArgument, "The pattern begins or ends with a slash or contains //; no path does.")
	}
	for _, c := range pattern {
		if !alphanumeric(c) && !strings.ContainsRune("*/.-_~", c) {
			return Refuse(InvalidArgument, "The pattern contains %q, which is not allowed in a path.", c)
		}
	}
	return nil
}
