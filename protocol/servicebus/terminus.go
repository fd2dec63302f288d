package servicebus

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// Texts for features that a link requests and the broker does not have (semantics.md 20).
const (
	noDynamicText  = "Dynamic nodes, such as temporary queues and temporary topics, are not implemented."
	noRelayText    = "A sender without a target address (anonymous relay, which sends each message where its 'to' says) is not implemented."
	noAddressText  = "The source of the link has no address."
	badAddressText = "The address of the link must be a string."
)

// addressOf returns the address at the broker's end of the link. A terminus without an address
// requests a feature that is not implemented, which the error names.
func addressOf(a *amqp.Attach) (string, *amqp.Error) {
	var at any
	var dynamic bool
	missing := refusal(amqp.CondInvalidField, noAddressText)
	if a.Role == amqp.RoleSender {
		missing = refusal(amqp.CondNotImplemented, noRelayText)
		switch t := a.Target.(type) {
		case *amqp.Target:
			at, dynamic = t.Address, t.Dynamic
		}
	} else if a.Source != nil {
		at, dynamic = a.Source.Address, a.Source.Dynamic
	}
	if dynamic {
		return "", refusal(amqp.CondNotImplemented, noDynamicText)
	}
	switch at := at.(type) {
	case nil:
		return "", missing
	case string:
		return at, nil
	case amqp.Symbol:
		return string(at), nil
	}
	return "", refusal(amqp.CondInvalidField, badAddressText)
}

// Distribution modes of a source (AMQP 3.5.7).
const (
	distributionMove amqp.Symbol = "move"
	distributionCopy amqp.Symbol = "copy"
)

// browsesFor reports whether a receiver browses the messages of a queue. Messages of a subscription
// are never browsed by a link: a durable topic consumer of JMS requests copies, and means the
// messages of its own subscription.
func (l *link) browsesFor(a *amqp.Attach) bool {
	return a.Role == amqp.RoleReceiver && a.Source.DistributionMode == distributionCopy && l.target.Entity.Kind == event.Queue
}

// sourceOf returns the source for the answer to an attach: the address as received and, for a
// receiver, the requested features that the broker honours. It has no durability, expiry and
// timeout, because nothing of a link outlives it, and no default outcome, because there is none.
func (l *link) sourceOf(a *amqp.Attach) *amqp.Source {
	if a.Source == nil {
		return &amqp.Source{}
	}
	s := &amqp.Source{Address: mirrored(a.Source.Address)}
	if l.receiver == nil || l.receiver.engine == nil {
		return s
	}
	if s.DistributionMode = a.Source.DistributionMode; s.DistributionMode != "" && !l.browses {
		s.DistributionMode = distributionMove
	}
	if l.filter != nil {
		s.Filter = message.Granted(a.Source.Filter, l.receiver.grant.ID)
	}
	if !l.browses {
		s.Outcomes = knownOutcomes(a.Source.Outcomes)
	}
	return s
}

// targetOf returns the target for the answer to an attach.
func targetOf(a *amqp.Attach) amqp.Terminus {
	if coordinates(a) {
		return coordinatorOf(a)
	}
	if t, ok := a.Target.(*amqp.Target); ok && t != nil {
		return &amqp.Target{Address: mirrored(t.Address)}
	}
	return &amqp.Target{}
}

// mirrored returns an address of an attach for the answer: a string, the only type that addresses
// have (address-string, AMQP 3.2). A symbol is treated as a string; other types are not repeated.
func mirrored(address any) any {
	switch at := address.(type) {
	case string:
		return at
	case amqp.Symbol:
		return string(at)
	}
	return nil
}

// settlements are the outcomes that receivers may use (4.6).
var settlements = []amqp.Symbol{"amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"}

// knownOutcomes returns the requested outcomes that a receiver may use; none if it requested none.
func knownOutcomes(asked []amqp.Symbol) (known []amqp.Symbol) {
	for _, o := range asked {
		if slices.Contains(settlements, o) && !slices.Contains(known, o) {
			known = append(known, o)
		}
	}
	return known
}
