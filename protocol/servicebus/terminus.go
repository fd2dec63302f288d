package servicebus

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// Texts that name what is asked of a link and not there (semantics.md 20).
const (
	noDynamicText  = "Dynamic nodes, such as temporary queues and temporary topics, are not implemented."
	noRelayText    = "A sender without a target address (anonymous relay, which sends each message where its 'to' says) is not implemented."
	noAddressText  = "The source of the link has no address."
	badAddressText = "The address of the link must be a string."
)

// addressOf is the address at the broker's end of the link. A terminus without one asks for
// something that is not implemented, which the error names.
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

// The ways of a source to hand out its messages (AMQP 3.5.7).
const (
	distributionMove amqp.Symbol = "move"
	distributionCopy amqp.Symbol = "copy"
)

// browsesFor reports whether a receiver looks at the messages of a queue without taking them. From
// a subscription messages are always taken: a durable topic consumer of JMS asks for copies, and
// means those that its own subscription has.
func (l *link) browsesFor(a *amqp.Attach) bool {
	return a.Role == amqp.RoleReceiver && a.Source.DistributionMode == distributionCopy && l.target.Entity.Kind == event.Queue
}

// sourceOf is the source of the answer to an attach: the address as it came and, for a receiver,
// what the broker honours of what it asked for. Durability, expiry and timeout are left out,
// because nothing of a link outlives it, and so is the default outcome, because there is none.
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

// targetOf is the target of the answer to an attach.
func targetOf(a *amqp.Attach) amqp.Terminus {
	if coordinates(a) {
		return coordinatorOf(a)
	}
	if t, ok := a.Target.(*amqp.Target); ok && t != nil {
		return &amqp.Target{Address: mirrored(t.Address)}
	}
	return &amqp.Target{}
}

// mirrored is an address of an attach as the answer has it: a string, the only type that addresses
// have (address-string, AMQP 3.2). A symbol is taken for one; what else a peer calls its own end is
// not repeated.
func mirrored(address any) any {
	switch at := address.(type) {
	case string:
		return at
	case amqp.Symbol:
		return string(at)
	}
	return nil
}

// settlements are the ways to settle that receivers may use (4.6).
var settlements = []amqp.Symbol{"amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"}

// knownOutcomes are those of the outcomes a receiver asked for that it may use; none when it asked
// for none.
func knownOutcomes(asked []amqp.Symbol) (known []amqp.Symbol) {
	for _, o := range asked {
		if slices.Contains(settlements, o) && !slices.Contains(known, o) {
			known = append(known, o)
		}
	}
	return known
}
