package access

import "github.com/ledgerbus/ledgerbus/log/event"

// Rights are the rights that a token or an access rule gives (management-api.md 5.1).
type Rights uint8

// The rights. Manage includes all others.
const (
	Listen Rights = 1 << iota
	Send
	manageOnly
	ReadHistory // to query history, without bodies of messages
	ReadBodies  // to read bodies of messages as well
	Manage      = manageOnly | Listen | Send | ReadHistory | ReadBodies
)

// Rights that the rules of the namespace may list besides those of Service Bus
// (docs/decisions/0057). Rules of entities cannot: neither the log nor the management API has these
// rights.
const (
	HistoryReader event.Right = 0x80
	BodyReader    event.Right = 0x81
)

// rightsOf returns the rights of an access rule. A rule that lists only Manage gives all rights.
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

// String returns the right's name for error texts.
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
