package access

import "github.com/ledgerbus/ledgerbus/log/event"

// Rights is what a token or an access rule allows (management-api.md 5.1).
type Rights uint8

// The rights. Manage includes all others.
const (
	Listen Rights = 1 << iota
	Send
	manageOnly
	ReadHistory // to ask what happened, without bodies of messages
	ReadBodies  // to see the bodies as well
	Manage      = manageOnly | Listen | Send | ReadHistory | ReadBodies
)

// What the rules of the namespace may list beside the rights of Service Bus (docs/decisions/0057).
// No rule of an entity can: neither the log nor the management API knows these.
const (
	HistoryReader event.Right = 0x80
	BodyReader    event.Right = 0x81
)

// rightsOf are the rights of an access rule. One that lists Manage alone allows everything.
func rightsOf(list event.Rights) Rights {
	var r Rights
	for _, right := range list {
		switch right {
		case event.Manage:
			r |= Manage
		case event.Send:
			r |= Send
		case event.Listen:
			r |= Listen
		case HistoryReader:
			r |= ReadHistory
		case BodyReader:
			r |= ReadBodies
		}
	}
	return r
}

// Has reports whether r includes all of want.
func (r Rights) Has(want Rights) bool { return r&want == want }

// String is the right's name in error texts.
func (r Rights) String() string {
	switch r {
	case Listen:
		return "Listen"
	case Send:
		return "Send"
	case ReadHistory:
		return "ReadHistory"
	case ReadBodies:
		return "ReadBodies"
	}
	return "Manage"
}
