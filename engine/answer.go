package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// Answer is the answer to a command. The set is closed: a [*Delivery] comes with every
// [ReplyDelivery], a [*SessionGrant] answers an [Attach] that got a session, the types of this file
// answer other commands, and package host has a few more ([Internal]).
type Answer interface{ answer() }

// Putting most of these into a reply allocates memory, so they answer only commands that are rare
// compared with messages.
type (
	// Times are the new ends of the locks that a [Renew] names, in its order, or of the one lock of
	// a [RenewSession].
	Times []event.Time
	// Messages are the messages that a [Peek] found, in sequence order, or that a [ReceiveDeferred]
	// took, in its order. For a [Settle] with Unread they are the messages to read before it, in
	// the order of its tokens.
	Messages []Delivery
	// Numbers are the sequence numbers that a [Send] asked for: one per message, 0 for a dropped
	// message.
	Numbers []event.SequenceNumber
	// SessionState tells where the state is stored that a [GetSessionState] asked for. There is no
	// answer if the session has no state.
	SessionState struct{ Blob *event.Blob }
	// SessionIDs are the session ids that a [ListSessions] found, in order. Left is the remainder
	// of Skip if there were fewer ids than that.
	SessionIDs struct {
		IDs  []string
		Left int
	}
	// Deleted is the number of messages that a [BatchDelete] removed.
	Deleted int
	// Rules are the rules that a [ListRules] found, by lower-cased name.
	Rules []event.Rule
)

func (*Delivery) answer()     {}
func (*SessionGrant) answer() {}
func (Times) answer()         {}
func (Messages) answer()      {}
func (Numbers) answer()       {}
func (SessionState) answer()  {}
func (SessionIDs) answer()    {}
func (Deleted) answer()       {}
func (Rules) answer()         {}
func (Internal) answer()      {}

// Delivery returns the message of a [ReplyDelivery]; nil if there is no answer or another one.
func (r *Reply) Delivery() *Delivery {
	d, _ := r.Answer.(*Delivery)
	return d
}

// SessionGrant returns the session lock that an [Attach] got; nil if there is no answer or another
// one.
func (r *Reply) SessionGrant() *SessionGrant {
	g, _ := r.Answer.(*SessionGrant)
	return g
}

// Times returns the answer if it is [Times], else nil.
func (r *Reply) Times() []event.Time {
	t, _ := r.Answer.(Times)
	return t
}

// Messages returns the answer if it is [Messages], else nil.
func (r *Reply) Messages() []Delivery {
	m, _ := r.Answer.(Messages)
	return m
}

// Numbers returns the answer if it is [Numbers], else nil.
func (r *Reply) Numbers() []event.SequenceNumber {
	n, _ := r.Answer.(Numbers)
	return n
}

// SessionState returns where a session's state is stored if the answer is [SessionState]. It
// returns nil for another answer, or if there is no state.
func (r *Reply) SessionState() *event.Blob {
	s, _ := r.Answer.(SessionState)
	return s.Blob
}

// SessionIDs returns the answer if it is [SessionIDs], else the zero value.
func (r *Reply) SessionIDs() SessionIDs {
	ids, _ := r.Answer.(SessionIDs)
	return ids
}

// Deleted returns the number of messages removed if the answer is [Deleted], else 0.
func (r *Reply) Deleted() int {
	n, _ := r.Answer.(Deleted)
	return int(n)
}

// Rules returns the answer if it is [Rules], else nil.
func (r *Reply) Rules() []event.Rule {
	rules, _ := r.Answer.(Rules)
	return rules
}
