package servicebus

import (
	"iter"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// links is the links of a connection, by what they are asked for.
type links struct {
	attached int // those that live
	// those detached by us, of which the peer's detach has not come
	detached int
	names    map[linkName]*link       // those that live
	tokens   [2]*link                 // to $cbs: where the peer sends, where it receives
	holders  map[messageSession]*link // of message sessions
	// bytes of the largest message that may be sent on one of them; 0: not known
	most int
}

// linkName identifies a link on a connection: names are unique per direction (9.5).
type linkName struct {
	name string
	role amqp.Role
}

// messageSession names a session of messages, which a link may hold.
type messageSession struct {
	entity event.EntityID
	id     string
}

func newLinks() links {
	return links{names: make(map[linkName]*link), holders: make(map[messageSession]*link)}
}

// add enters a link that is attached. One that has the same name no longer has it.
func (t *links) add(l *link) {
	t.attached++
	t.most = 0
	t.names[linkName{l.name, l.role()}] = l
	if l.at.cbs {
		*t.token(l.role()) = l
	}
}

// remove takes a link out.
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

// largest is the size of the largest message that the peer may send on one of its links, in bytes.
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

// named returns the link with a name on which the peer has a role, nil when there is none.
func (t *links) named(name string, role amqp.Role) *link { return t.names[linkName{name, role}] }

// token is the place of the one link to $cbs on which the peer has a role (2.1,
// docs/decisions/0019).
func (t *links) token(role amqp.Role) **link {
	if role == amqp.RoleSender {
		return &t.tokens[0]
	}
	return &t.tokens[1]
}

// awaitDetach counts a link that was detached by us and stays known until the peer's detach comes.
func (t *links) awaitDetach() { t.detached++ }

// detachCame is called when the peer's detach has come, or when it is no longer waited for.
func (t *links) detachCame() { t.detached-- }

// hold enters a link that was granted a message session.
func (t *links) hold(l *link) { t.holders[l.messageSession()] = l }

// release takes it out.
func (t *links) release(l *link) { delete(t.holders, l.messageSession()) }

// holder returns the link that holds a message session, nil when none does.
func (t *links) holder(of messageSession) *link { return t.holders[of] }

// locks are those of all message sessions of an entity that are held.
func (t *links) locks(entity event.EntityID) (held []event.LockToken) {
	for at, l := range t.holders {
		if at.entity == entity {
			held = append(held, l.receiver.grant.Token)
		}
	}
	return held
}

// sessionTable is the sessions of a connection, by channel.
type sessionTable map[uint16]*session

// leave lets go of all sessions, of their transactions first.
func (t sessionTable) leave(closed event.LinkClosed) {
	for _, s := range t {
		s.rollBack()
	}
	for _, s := range t {
		s.leave(closed)
	}
	clear(t)
}

// links goes over all links, detached ones among them. They may be detached meanwhile.
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

// concern reports whether a change is of an entity that one of the links leads to.
func (t sessionTable) concern(change *engine.Change) bool {
	for l := range t.links() {
		if concerns(change, l) {
			return true
		}
	}
	return false
}

// nextIdle is when the first link will have been idle for a time, zero when none can be.
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
