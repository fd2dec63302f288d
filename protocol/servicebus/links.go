package servicebus

import (
	"iter"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// links finds the links of a connection by name, by role and by message session.
type links struct {
	attached int // links that live
	// links detached by the broker and not by the peer yet
	detached int
	names    map[linkName]*link // links that live
	// to $cbs: the one on which the peer sends, the one on which it receives
	tokens  [2]*link
	holders map[messageSession]*link // of message sessions
	// bytes of the largest message that may be sent on one of them; 0: unknown
	most int
}

// linkName identifies a link on a connection: names are unique per direction (9.5).
type linkName struct {
	name string
	role amqp.Role
}

// messageSession identifies a session of messages, which a link may hold.
type messageSession struct {
	entity event.EntityID
	id     string
}

func newLinks() links {
	return links{names: make(map[linkName]*link), holders: make(map[messageSession]*link)}
}

// add adds a link that is attached. It takes the name from another link with the same name.
func (t *links) add(l *link) {
	t.attached++
	t.most = 0
	t.names[linkName{l.name, l.role()}] = l
	if l.at.cbs {
		*t.token(l.role()) = l
	}
}

// remove removes a link.
func (t *links) remove(l *link) {
	t.attached--
	t.most = 0
	if key := (linkName{l.name, l.role()}); t.names[key] == l {
		delete(t.names, key)
	}
	if l.at.cbs {
		*t.token(l.role()) = nil
	}
}

// largest returns the size of the largest message that the peer may send on one of its links, in
// bytes.
func (t *links) largest() int {
	if t.most == 0 {
		for _, l := range t.names {
			if l.sender != nil {
				t.most = max(t.most, l.sender.maxSize)
			}
		}
	}
	return t.most
}

// named returns the link with a name on which the peer has a role, nil if there is none.
func (t *links) named(name string, role amqp.Role) *link { return t.names[linkName{name, role}] }

// token returns the place for the one link to $cbs on which the peer has a role (2.1,
// docs/decisions/0019).
func (t *links) token(role amqp.Role) **link {
	if role == amqp.RoleSender {
		return &t.tokens[0]
	}
	return &t.tokens[1]
}

// awaitDetach counts a link that the broker has detached, until the peer's detach arrives.
func (t *links) awaitDetach() { t.detached++ }

// detachCame is called when the peer's detach has arrived or is no longer expected.
func (t *links) detachCame() { t.detached-- }

// hold adds a link that was granted a message session.
func (t *links) hold(l *link) { t.holders[l.messageSession()] = l }

// release removes it.
func (t *links) release(l *link) { delete(t.holders, l.messageSession()) }

// holder returns the link that holds a message session, nil if there is none.
func (t *links) holder(of messageSession) *link { return t.holders[of] }

// locks returns the locks of all held message sessions of an entity.
func (t *links) locks(entity event.EntityID) (held []event.LockToken) {
	for at, l := range t.holders {
		if at.entity == entity {
			held = append(held, l.receiver.grant.Token)
		}
	}
	return held
}

// sessionTable holds the sessions of a connection, by channel.
type sessionTable map[uint16]*session

// leave ends all sessions, and before that their transactions.
func (t sessionTable) leave(closed event.LinkClosed) {
	for _, s := range t {
		s.rollBack()
	}
	for _, s := range t {
		s.leave(closed)
	}
	clear(t)
}

// links iterates over all links, including detached ones. Links may be detached during the
// iteration.
func (t sessionTable) links() iter.Seq[*link] {
	return func(yield func(*link) bool) {
		for _, s := range t {
			for _, l := range s.links {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// concern reports whether a change is of an entity of one of the links.
func (t sessionTable) concern(change *engine.Change) bool {
	for l := range t.links() {
		if concerns(change, l) {
			return true
		}
	}
	return false
}

// nextIdle returns when the first link will have been idle for a time, zero if no link can be.
func (t sessionTable) nextIdle(idle time.Duration) time.Time {
	var at time.Time
	for l := range t.links() {
		if l.canIdle() && (at.IsZero() || l.active.Before(at)) {
			at = l.active
		}
	}
	if at.IsZero() {
		return at
	}
	return at.Add(idle)
}
