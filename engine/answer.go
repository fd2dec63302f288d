package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// Answer is what was asked for. The set is closed: a [*Delivery] comes with every [ReplyDelivery],
// a [*SessionGrant] is for an [Attach] that was given a session, the types of this file are for
// other commands, and package host has a few of its own ([Internal]).
type Answer interface{ answer() }

// Most of these allocate when they are put into a reply, so only commands that are rare beside
// messages are answered with them.
type (
	// Times are the new ends of the locks that a [Renew] names, in its order, or for a
	// [RenewSession] that of the one lock.
	Times []event.Time
	// Messages are what a [Peek] found, in sequence order, or what a [ReceiveDeferred] took, in its
	// order; for a [Settle] with Unread, what has to be read before it, in the order of its tokens.
	Messages []Delivery
	// Numbers are the sequence numbers that a [Send] asked for: one per message, 0 for one that was
	// dropped.
	Numbers []event.SequenceNumber
	// SessionState says where the state is stored that a [GetSessionState] asked for. There is no
	// answer when the session has none.
	SessionState struct{ Blob *event.Blob }
	// SessionIDs are what a [ListSessions] found, in order. Left is what remains of Skip, where
	// there were fewer ids to skip.
	SessionIDs struct {
		IDs  []string
		Left int
	}
	// Deleted is how many messages a [BatchDelete] removed.
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

// Delivery is the message of a [ReplyDelivery]; nil: the answer is another, or there is none.
func (r *Reply) Delivery() *Delivery {
	d, _ := r.Answer.(*Delivery)
	return d
}

// SessionGrant is the lock of the session that an [Attach] was given; nil: the answer is another,
// or there is none.
func (r *Reply) SessionGrant() *SessionGrant {
	g, _ := r.Answer.(*SessionGrant)
	return g
}

// Times is the answer when it is [Times], else nil.
func (r *Reply) Times() []event.Time {
	t, _ := r.Answer.(Times)
	return t
}

// Messages is the answer when it is [Messages], else nil.
func (r *Reply) Messages() []Delivery {
	m, _ := r.Answer.(Messages)
	return m
}

// Numbers is the answer when it is [Numbers], else nil.
func (r *Reply) Numbers() []event.SequenceNumber {
	n, _ := r.Answer.(Numbers)
	return n
}

// SessionState says where a session's state is stored, when the answer is [SessionState]; nil: it
// is another one, or there is no state.
func (r *Reply) SessionState() *event.Blob {
	s, _ := r.Answer.(SessionState)
	return s.Blob
}

// SessionIDs is the answer when it is [SessionIDs], else none.
func (r *Reply) SessionIDs() SessionIDs {
	ids, _ := r.Answer.(SessionIDs)
	return ids
}

// Deleted is the number of messages removed when the answer is [Deleted], else 0.
func (r *Reply) Deleted() int {
	n, _ := r.Answer.(Deleted)
	return int(n)
}

// Rules is the answer when it is [Rules], else nil.
func (r *Reply) Rules() []event.Rule {
	rules, _ := r.Answer.(Rules)
	return rules
}
