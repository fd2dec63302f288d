package index

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// History has the policies about how long history is kept. A History in the catalogue is never
// changed: a changed copy replaces it.
type History struct {
	// Since is when the first policy was set; 0: none was ever set.
	Since event.Time
	// Namespace is the policy for everything that no pattern covers; nil: none was set.
	Namespace *NamespaceHistory
	// Patterns are the policies of entities, most specific first.
	Patterns []PatternPolicy
}

// NamespaceHistory is the policy of the namespace as a whole.
type NamespaceHistory struct {
	Policy      event.HistoryPolicy
	Share       uint32 // percent of the disk that all history may take; 0: unset
	BeforeSends bool   // history is kept even if sends must be refused for lack of room
}

// PatternPolicy is the policy of the entities that a pattern matches.
type PatternPolicy struct {
	Pattern string // as given
	Policy  event.HistoryPolicy

	lower string
}

// DefaultHistory is the policy if none was set (docs/decisions/0061).
var DefaultHistory = NamespaceHistory{
	Policy: event.HistoryPolicy{Events: event.KeepFor(7 * 24 * time.Hour), Bodies: event.KeepFor(24 * time.Hour), Undo: event.KeepFor(24 * time.Hour)},
	Share:  20,
}

// History returns the history policies in force; nil: none was ever set. The caller must not change
// them.
func (c *Catalogue) History() *History { return c.history }

// HistoryPolicy returns how long history of the entity with a path, in any letter case, is kept.
// Each field comes from the most specific pattern that matches the path and sets the field,
// otherwise from the namespace, and otherwise from [DefaultHistory]. A pattern that matches a topic
// also matches its subscriptions.
func (c *Catalogue) HistoryPolicy(path string) event.HistoryPolicy { return c.history.Of(path) }

// Of does the same as [Catalogue.HistoryPolicy].
func (h *History) Of(path string) event.HistoryPolicy { return h.Said(path).Or(DefaultHistory.Policy) }

// Said returns the policy for a path without [DefaultHistory]: fields that no policy sets stay
// zero.
func (h *History) Said(path string) (p event.HistoryPolicy) {
	if h != nil {
		path = strings.ToLower(path)
		topic, _, _ := strings.Cut(path, "/subscriptions/")
		for i := range h.Patterns {
			if at := &h.Patterns[i]; patternMatches(at.lower, path) || patternMatches(at.lower, topic) {
				p = p.Or(at.Policy)
			}
		}
		if h.Namespace != nil {
			p = p.Or(h.Namespace.Policy)
		}
	}
	return p
}

// Whole returns the policy of the namespace as a whole, or [DefaultHistory] if none was set.
func (h *History) Whole() NamespaceHistory {
	if h == nil || h.Namespace == nil {
		return DefaultHistory
	}
	whole := *h.Namespace
	whole.Policy = whole.Policy.Or(DefaultHistory.Policy)
	if whole.Share == 0 {
		whole.Share = DefaultHistory.Share
	}
	return whole
}

// Pattern finds the policy of a pattern, in any letter case.
func (h *History) Pattern(pattern string) (PatternPolicy, bool) {
	if h != nil {
		if i, ok := h.place(strings.ToLower(pattern)); ok {
			return h.Patterns[i], true
		}
	}
	return PatternPolicy{}, false
}

func (h *History) place(lower string) (int, bool) {
	return slices.BinarySearchFunc(h.Patterns, lower, func(p PatternPolicy, lower string) int { return comparePatterns(p.lower, lower) })
}

// restorePolicy adds a policy from a base: the namespace's first, then those of patterns, most
// specific first.
func (c *Catalogue) restorePolicy(ev *event.HistoryPolicySet) error {
	h := c.history
	if ev.Since == 0 || (ev.Pattern == "") != (h == nil) || h != nil && (h.Since != ev.Since || ev.Removed) {
		return fmt.Errorf("policy of %q out of place", ev.Pattern)
	}
	if h != nil && len(h.Patterns) > 0 && comparePatterns(h.Patterns[len(h.Patterns)-1].lower, strings.ToLower(ev.Pattern)) >= 0 {
		return fmt.Errorf("policy of %q out of order", ev.Pattern)
	}
	c.setHistory(ev.Since, ev)
	return nil
}

// setHistory replaces the policies by a changed copy.
func (c *Catalogue) setHistory(at event.Time, ev *event.HistoryPolicySet) {
	h := History{Since: at}
	if c.history != nil {
		h = *c.history
	}
	switch {
	case ev.Pattern != "":
		h.setPattern(ev)
	case ev.Removed:
		h.Namespace = nil
	default:
		h.Namespace = &NamespaceHistory{ev.Policy, ev.Share, ev.BeforeSends}
	}
	c.history = &h
}

func (h *History) setPattern(ev *event.HistoryPolicySet) {
	p := PatternPolicy{ev.Pattern, ev.Policy, strings.ToLower(ev.Pattern)}
	i, there := h.place(p.lower)
	h.Patterns = slices.Clone(h.Patterns)
	switch {
	case ev.Removed && there:
		h.Patterns = slices.Delete(h.Patterns, i, i+1)
	case ev.Removed:
	case there:
		h.Patterns[i] = p
	default:
		h.Patterns = slices.Insert(h.Patterns, i, p)
	}
}
