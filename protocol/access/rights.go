package access

import "github.com/ledgerbus/ledgerbus/log/event"

// Rights is what a token or an access rule allows (management-api.md 5.1).
type Rights uint8

// The rights. Manage includes the other two.
const (
	Listen Rights = 1 << iota
	Send
	manageOnly
	Manage = manageOnly | Listen | Send
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
	}
	return "Manage"
}
