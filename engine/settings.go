package engine

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// settings are the settings and rules in force in a partition. They are an input of the rules: see
// [Partition.Configure].
type settings struct {
	entities map[event.EntityID]*Entity
	topics   map[event.EntityID]*filter.Set // the rules of their subscriptions
	noSends  *Error                         // why no message is accepted; nil: messages are
	// noHandOvers tells why no message for another entity is accepted; nil: such messages are.
	noHandOvers *Error
	// noSplits tells why no entity with several partitions is created; nil: such entities are.
	noSplits *Error
	history  int             // ids in the duplicate history of a slice, at most
	newID    func() [16]byte // the value of newid() in rules: see [Partition.DrawIDs]
}

// of returns the version of an entity that is in force for a slice of it. It refuses with NotFound.
func (s *settings) of(id event.Slice) (*Entity, *Error) {
	if e := s.entities[id.Entity]; e != nil {
		return e, nil
	}
	return nil, Refuse(NotFound, "The messaging entity with id %d could not be found.", id.Entity)
}

// storingEntity returns the entity whose limits apply to what an entity stores: for a subscription
// its topic, nil while that is being deleted.
func (s *settings) storingEntity(e *Entity) *Entity {
	if e.Kind == event.Subscription {
		return s.entities[e.Topic]
	}
	return e
}

// rulesOf returns the rules of all subscriptions of a topic.
func (s *settings) rulesOf(topic event.EntityID) *filter.Set {
	set := s.topics[topic]
	if set == nil {
		set = filter.NewSet()
		s.topics[topic] = set
	}
	return set
}

// replaceRules replaces the rules of a subscription. One that cannot be compiled is left out.
func (s *settings) replaceRules(sub *Entity, rules []event.Rule) error {
	set := s.rulesOf(sub.Topic)
	set.Drop(sub.ID)
	var errs []error
	for _, r := range rules {
		if err := set.Put(sub.ID, r); err != nil {
			errs = append(errs, fmt.Errorf("engine: rule %q of %s: %w", r.Name, sub.Path, err))
		}
	}
	return errors.Join(errs...)
}

// forget takes an entity out of force, with its rules.
func (s *settings) forget(id event.EntityID) {
	if e := s.entities[id]; e != nil && e.Kind == event.Subscription {
		if set := s.topics[e.Topic]; set != nil {
			set.Drop(id)
		}
	}
	delete(s.entities, id)
	delete(s.topics, id)
}
