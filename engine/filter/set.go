package filter

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Set holds the rules in force of all subscriptions of one topic. It has one owner.
//
// Each rule is kept by the kind of its filter: true filters in a list, correlation filters in an
// index, SQL filters with others of the same text; a rule with a false filter is in none of them.
type Set struct {
	subscriptions map[event.EntityID]*subscription
	always        []*Rule // true filters, by key
	programs      []*sharedFilter
	byText        map[string]*sharedFilter
	// SQL filters with newid(), by key: each is evaluated for itself, in this order
	volatile     []*Rule
	correlations correlations

	machine machine
	hits    []hit
	matches []Match
	actions []*Rule
}

type subscription struct {
	id    event.EntityID
	rules []*Rule // in no order
	named map[string]*Rule
	next  uint32 // place of the next rule
}

// sharedFilter is an SQL filter that one or more rules have.
type sharedFilter struct {
	*program
	key   string
	at    int     // in Set.programs
	rules []*Rule // by key
}

// Rule is a rule in force.
type Rule struct {
	name string
	// id of the subscription, and the rule's place among its rules: the order of results
	key          uint64
	subscription *subscription
	at           int // in subscription.rules
	kind         event.FilterKind
	action       *action

	program *sharedFilter // of an SQL filter that is not constant
	alone   *program      // of an SQL filter with newid()
	values  []event.Value // of a correlation filter
	bucket  *bucket
	// inBucket is the rule's place in its bucket.
	inBucket int
	always   bool
}

// Name is the rule's name as it was given.
func (r *Rule) Name() string { return r.name }

// Match tells which rules of a subscription match a message. A subscription has no Match if none of
// its rules matches or fails.
type Match struct {
	Subscription event.EntityID
	// a rule without an action matched: the subscription gets one unchanged copy (semantics.md
	// 15.2)
	Plain bool
	// rules with an action that matched, in the order in which they were added: a copy each
	Actions []*Rule
	// Failed is the first rule whose filter could not be evaluated, nil if all could. Err is the
	// *EvalError that tells why (semantics.md 15.6).
	Failed *Rule
	Err    error
}

// hit is a rule that matched, or failed.
type hit struct {
	key  uint64
	rule *Rule
	err  *EvalError
}

// NewSet returns a set without rules.
func NewSet() *Set {
	s := &Set{subscriptions: map[event.EntityID]*subscription{}, byText: map[string]*sharedFilter{}}
	s.correlations.init()
	return s
}

// Put puts a rule in force: after the others of its subscription, or in place of the rule with its
// name in any case. An error is that of [Check]; the set is then unchanged.
func (s *Set) Put(sub event.EntityID, r event.Rule) error {
	c, err := compile(&r)
	if err != nil {
		return err
	}
	of := s.subscriptions[sub]
	if of == nil {
		of = &subscription{id: sub, named: map[string]*Rule{}}
		s.subscriptions[sub] = of
	}
	folded := string(appendFolded(nil, r.Name))
	rule := of.named[folded]
	if rule != nil {
		s.disable(rule)
		*rule = Rule{key: rule.key, at: rule.at}
	} else {
		rule = &Rule{key: uint64(sub)<<32 | uint64(of.next), at: len(of.rules)}
		of.next++
		of.rules = append(of.rules, rule)
		of.named[folded] = rule
	}
	rule.name, rule.subscription, rule.kind, rule.action = r.Name, of, c.kind, c.action
	s.enable(rule, &c, &r.Filter)
	return nil
}

// Remove takes a rule out of force, by its name in any case. If there is none it does nothing.
func (s *Set) Remove(sub event.EntityID, name string) {
	of := s.subscriptions[sub]
	if of == nil {
		return
	}
	folded := string(appendFolded(nil, name))
	r := of.named[folded]
	if r == nil {
		return
	}
	s.disable(r)
	delete(of.named, folded)
	last := len(of.rules) - 1
	of.rules[r.at] = of.rules[last]
	of.rules[r.at].at = r.at
	of.rules[last] = nil
	of.rules = of.rules[:last]
}

// Drop takes all rules of a subscription out of force.
func (s *Set) Drop(sub event.EntityID) {
	of := s.subscriptions[sub]
	if of == nil {
		return
	}
	for _, r := range of.rules {
		s.disable(r)
	}
	delete(s.subscriptions, sub)
}

// enable adds a rule to the list or index of its kind of filter.
func (s *Set) enable(r *Rule, c *compiledRule, f *event.Filter) {
	if c.kind == event.CorrelationFilter {
		s.correlations.add(r, c.test)
		return
	}
	switch c.kind {
	case event.TrueFilter:
		r.always = true
		s.always = insert(s.always, r)
	case event.SQLFilter:
		v, constant := c.filter.constant()
		switch {
		case constant && v.Bits != 0: // 1=1, as clients write a true filter
			r.always = true
			s.always = insert(s.always, r)
		case constant:
		case c.filter.volatile:
			r.alone = c.filter
			s.volatile = insert(s.volatile, r)
		default:
			s.share(r, c.filter, f)
		}
	}
}

// disable removes a rule from the list or index of its kind of filter.
func (s *Set) disable(r *Rule) {
	if r.kind == event.CorrelationFilter {
		s.correlations.remove(r)
		return
	}
	switch {
	case r.always:
		s.always = remove(s.always, r)
	case r.alone != nil:
		s.volatile = remove(s.volatile, r)
	case r.program != nil:
		s.unshare(r)
	}
}

// share adds a rule to those with the same filter, which is evaluated once for all of them.
func (s *Set) share(r *Rule, p *program, f *event.Filter) {
	key := append(binary.AppendUvarint(nil, uint64(len(f.Text))), f.Text...)
	for i := range f.Parameters {
		v := &f.Parameters[i].Value
		for _, text := range [...]string{f.Parameters[i].Name, v.Text} {
			key = append(binary.AppendUvarint(key, uint64(len(text))), text...)
		}
		key = binary.AppendUvarint(append(key, byte(v.Type)), v.Bits)
	}
	of := s.byText[string(key)]
	if of == nil {
		of = &sharedFilter{program: p, key: string(key), at: len(s.programs)}
		s.programs = append(s.programs, of)
		s.byText[of.key] = of
	}
	r.program = of
	of.rules = insert(of.rules, r)
}

func (s *Set) unshare(r *Rule) {
	of := r.program
	if of.rules = remove(of.rules, r); len(of.rules) > 0 {
		return
	}
	delete(s.byText, of.key)
	last := len(s.programs) - 1
	s.programs[of.at] = s.programs[last]
	s.programs[of.at].at = of.at
	s.programs[last] = nil
	s.programs = s.programs[:last]
}

// insert and remove keep a list ordered by key.
func insert(rules []*Rule, r *Rule) []*Rule {
	i, _ := slices.BinarySearchFunc(rules, r.key, keyOrder)
	return slices.Insert(rules, i, r)
}

func remove(rules []*Rule, r *Rule) []*Rule {
	i, _ := slices.BinarySearchFunc(rules, r.key, keyOrder)
	return slices.Delete(rules, i, i+1)
}

func keyOrder(r *Rule, key uint64) int { return cmp.Compare(r.key, key) }

// Match returns the matches of a message with the rules in force, in order of subscription id. The
// result is valid until the next call and the next change of the set. newID returns the values of
// newid().
func (s *Set) Match(m *Message, newID func() [16]byte) []Match {
	s.machine.begin(m, newID)
	s.hits = s.correlations.match(&s.machine.view, s.hits[:0])
	for _, p := range s.programs {
		if t, err := s.machine.filter(p.program); t == yes || err != nil {
			for _, r := range p.rules {
				s.hits = append(s.hits, hit{r.key, r, err})
			}
		}
	}
	for _, r := range s.volatile {
		if t, err := s.machine.filter(r.alone); t == yes || err != nil {
			s.hits = append(s.hits, hit{r.key, r, err})
		}
	}
	slices.SortFunc(s.hits, func(a, b hit) int { return cmp.Compare(a.key, b.key) })
	s.group()
	return s.matches
}

// group combines the hits and the true filters, both of which are ordered, into matches.
func (s *Set) group() {
	s.matches, s.actions = s.matches[:0], s.actions[:0]
	hits, always := s.hits, s.always
	first := 0 // index of the first action of the current match
	for len(hits) > 0 || len(always) > 0 {
		var h hit
		if len(always) == 0 || len(hits) > 0 && hits[0].key < always[0].key {
			h, hits = hits[0], hits[1:]
		} else {
			h.rule, always = always[0], always[1:]
		}
		r := h.rule
		if n := len(s.matches); n == 0 || s.matches[n-1].Subscription != r.subscription.id {
			s.matches = append(s.matches, Match{Subscription: r.subscription.id})
			first = len(s.actions)
		}
		m := &s.matches[len(s.matches)-1]
		switch {
		case h.err != nil:
			if m.Failed == nil {
				m.Failed, m.Err = r, h.err
			}
		case r.action == nil:
			m.Plain = true
		default:
			s.actions = append(s.actions, r)
			m.Actions = s.actions[first:len(s.actions):len(s.actions)]
		}
	}
}
