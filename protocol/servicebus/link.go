package servicebus

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// link is one attached link. Exactly one of sender and receiver is set, named for the peer's role.
// Its handle is the peer's: unique in the session while the link lives.
type link struct {
	s        *session
	c        *conn
	name     string
	handle   uint32
	detached bool // the broker's detach is sent, or the link is gone; nothing more is sent for it
	at       address
	right    access.Rights // right of the claim that it depends on; 0: none needed
	held     int           // bytes counted in conn.memory
	target   engine.Target
	transfer transfer
	origin   *engine.Origin
	active   time.Time // of the last frame
	sender   *sender
	receiver *receiver

	filter *message.SessionFilter // of a receiver that wants a message session
	// a receiver that only reads: its deliveries have no lock, and its settlements no effect
	browses   bool
	attaching *pendingAttach // not nil: the attach has no answer yet
}

// attach answers the peer's attach (3.1, 4.1). Refusals are checked in the order of 8.3.
func (s *session) attach(a *amqp.Attach) {
	c := s.c
	if s.links[a.Handle] != nil {
		s.end(amqp.CondHandleInUse, "The handle is in use.")
		return
	}
	if a.Handle > handleMax {
		s.end(amqp.CondNotAllowed, "The handle exceeds handle-max.")
		return
	}
	if c.links.detached >= c.allowed.detached() {
		s.end(amqp.CondResourceLimit, "Too many detached links wait for the peer's detach.")
		return
	}
	l := &link{s: s, c: c, name: a.Name, handle: a.Handle, active: c.now}
	if !c.out.fits(l.refusalOf(a)) {
		s.end(amqp.CondFrameSizeTooSmall, fmt.Sprintf("The name of the link leaves no room for an answer of at most %d bytes.", c.out.maxFrame))
		return
	}
	if e := l.resolve(a); e != nil {
		l.refuse(a, e)
		return
	}
	if old := c.links.named(a.Name, a.Role); old != nil {
		old.end(amqp.CondLinkStolen, "The link was attached again under the same name.")
	}
	if a.Role == amqp.RoleSender {
		l.sender = newSender(l)
	} else {
		l.receiver = newReceiver(l, a)
	}
	c.links.add(l)
	s.links[a.Handle] = l
	s.group.attached(l)
	l.hold(l.cost(a))
	if l.at.counts() {
		c.timers.attached(c)
	}
	switch {
	case l.sender != nil:
		if l.writeAttach(a) {
			l.sender.open()
			l.sender.grant()
		}
	case l.filter != nil:
		l.attaching = &pendingAttach{frame: bytes.Clone(c.in.body)}
		l.hold(len(c.in.body))
		l.receiver.start()
	default:
		if l.writeAttach(a) {
			l.receiver.start()
		}
	}
	c.log.Debug("servicebus: link attached", "link", loggable(l.name), "entity", l.at.path, "peer_sends", a.Role == amqp.RoleSender)
}

// resolve finds the link's entity or node, and checks that the peer may have the link.
func (l *link) resolve(a *amqp.Attach) *amqp.Error {
	c := l.c
	if coordinates(a) {
		return l.resolveCoordinator(a)
	}
	raw, e := addressOf(a)
	if e != nil {
		return e
	}
	l.at = parseAddress(raw)
	if l.at.cbs {
		l.origin = &engine.Origin{}
		if *c.links.token(a.Role) != nil {
			return refusal(amqp.CondNotAllowed, fmt.Sprintf(tokenLinkText, c.number))
		}
		if e := l.readFilters(a); e != nil {
			return e
		}
		return l.room(a)
	}
	l.right = access.Listen
	if a.Role == amqp.RoleSender && !l.at.management {
		l.right = access.Send
	}
	g, ok := c.claims.allow(l.at.claimPath(), l.right, c.now)
	if l.at.management && !ok { // either right opens the node; each request is checked again (6.3)
		if g, ok = c.claims.allow(l.at.claimPath(), access.Send, c.now); ok {
			l.right = access.Send
		}
	}
	if !ok {
		return &amqp.Error{Condition: amqp.CondUnauthorizedAccess, Description: c.unauthorized(l.right, l.at)}
	}
	target, err := c.broker.Resolve(l.at.path)
	if err != nil {
		cond, text := l.describe(err)
		return refusal(cond.symbol, text)
	}
	l.target = target
	l.origin = &engine.Origin{
		Connection: c.number, RemoteAddress: c.remote, ContainerID: c.peer.container, Product: c.peer.product,
		Principal: g.Rule, Link: a.Name, Entity: l.at.path,
	}
	if e := l.readFilters(a); e != nil {
		return e
	}
	if l.at.management {
		return l.room(a)
	}
	l.browses = l.browsesFor(a)
	if e := l.transfer.find(l, a); e != nil {
		return e
	}
	for _, check := range [...]func(*link, *amqp.Attach) *amqp.Error{(*link).checkStatus, (*link).checkKind, (*link).room, (*link).checkDirection} {
		if e := check(l, a); e != nil {
			return e
		}
	}
	return nil
}

// readFilters reads the filters of a receiver's source. The source of a sending peer is the peer's
// own and is ignored.
func (l *link) readFilters(a *amqp.Attach) (e *amqp.Error) {
	if a.Role == amqp.RoleReceiver {
		l.filter, e = message.ReadFilters(a.Source.Filter, !l.at.cbs && !l.at.management, l.c.limits.IDLength)
	}
	return e
}

func refusal(symbol amqp.Symbol, text string) *amqp.Error {
	return &amqp.Error{Condition: symbol, Description: text}
}

// checkStatus checks the entity's status (semantics.md 16.1). The status of a topic does not apply
// to its subscriptions. An entity that accepts no messages can still hand them over to another one.
func (l *link) checkStatus(a *amqp.Attach) *amqp.Error {
	sends := a.Role == amqp.RoleSender
	keeps := sends && l.transfer.destination == nil
	switch status := l.target.Entity.Properties.Status; {
	case status == event.Disabled, keeps && status == event.SendDisabled, !sends && status == event.ReceiveDisabled:
		return refusal(amqp.CondEntityDisabled, "The messaging entity is currently disabled.")
	}
	return nil
}

// checkKind checks that a receiver is of the kind that the entity requires.
func (l *link) checkKind(a *amqp.Attach) *amqp.Error {
	if a.Role == amqp.RoleSender || nothingToReceive(l.target) {
		return nil
	}
	p := &l.target.Entity.Properties
	switch sessions := ofSessions(l.target); {
	case l.browses && l.filter != nil:
		return refusal(amqp.CondNotImplemented, noSessionBrowserText)
	case sessions && l.filter == nil && !l.browses:
		return refusal(amqp.CondNotAllowed, sessionText)
	case l.target.SubQueue != event.Main && l.filter != nil:
		return refusal(amqp.CondNotAllowed, subQueueSessionText)
	case !sessions && l.filter != nil:
		return refusal(amqp.CondNotAllowed, noSessionsText)
	case l.browses && forwards(l.target):
		return refusal(amqp.CondNotAllowed, forwardingBrowserText)
	case !l.browses && (forwards(l.target) || p.ForwardDeadLetteredMessagesTo != "" && l.target.SubQueue == event.DeadLetter):
		return refusal(amqp.CondNotAllowed, forwardingText)
	}
	return nil
}

const (
	forwardingText        = "Cannot create a message receiver on an entity with auto-forwarding enabled."
	forwardingBrowserText = "Cannot create a message browser on an entity with auto-forwarding enabled."
)

// forwards reports whether the messages of a target are forwarded to another entity. Forwarded dead
// letters can be browsed, but not received.
func forwards(t engine.Target) bool {
	return t.Entity.Properties.ForwardTo != "" && t.SubQueue == event.Main
}

const (
	toSubQueueText     = "Messages cannot be sent to a sub-queue."
	toSubscriptionText = "Messages cannot be sent to a subscription; they are sent to its topic."
	fromTopicText      = "Messages cannot be received from a topic; they are received from its subscriptions."
	noRulesText        = "Only subscriptions have rules."
	toNodeText         = "Messages cannot be transferred to a node of the broker."
)

// checkDirection checks that the entity can have messages in the link's direction at all. A
// receiver of a topic is attached although nothing is ever delivered to it: some SDKs peek only
// after they have attached one. It is refused when it gives credit (8.3).
func (l *link) checkDirection(a *amqp.Attach) *amqp.Error {
	switch {
	case a.Role == amqp.RoleSender:
		return takesMessages(l.target)
	case nothingToReceive(l.target) && (l.filter != nil || l.target.SubQueue != event.Main || a.Source.DistributionMode == distributionCopy):
		return refusal(amqp.CondNotAllowed, fromTopicText)
	}
	return nil
}

// nothingToReceive reports whether a target never has messages for receivers: a topic, except for
// its messages that could not be forwarded.
func nothingToReceive(t engine.Target) bool {
	return t.Entity.Kind == event.Topic && t.SubQueue != event.TransferDeadLetter
}

// linksBeforeLogin bounds the links of a session before the first valid token: the pair to $cbs,
// and the coordinator with which the group of a client of cross-entity transactions begins.
const linksBeforeLogin = 3

// room checks the limits on links (reliability.md 8), including the length of names, because the
// connection keeps the names.
func (l *link) room(a *amqp.Attach) *amqp.Error {
	if len(l.name) > maxLinkName {
		return refusal(amqp.CondResourceLimit, fmt.Sprintf("The name of the link is longer than %d bytes.", maxLinkName))
	}
	limit := l.c.allowed.links()
	if !l.c.allowed.loggedIn && len(l.s.links) >= linksBeforeLogin {
		limit = 0
	}
	if l.c.links.attached >= limit {
		return &amqp.Error{Condition: amqp.CondResourceLimit, Description: "There are too many links."}
	}
	switch cost := l.c.claims.cost() + l.cost(a) + len(l.c.in.body); {
	case !l.c.memory.hasRoom(cost):
		return &amqp.Error{Condition: amqp.CondResourceLimit, Description: "The links take too much memory."}
	case !l.c.memory.reserve(cost): // there may be memory a moment later
		return refusal(amqp.CondServerBusy, noMemoryText)
	}
	return nil
}

// unauthorized returns the text of 8.4 that SDK tests look for.
func (c *conn) unauthorized(right access.Rights, at address) string {
	return fmt.Sprintf("Unauthorized access. '%s' claim(s) are required to perform this operation. Resource: 'sb://%s/%s'.",
		right, c.hostOf(at), strings.ToLower(at.path))
}

// refuse answers an attach with one whose termini are null and with a detach, in one flush (9.3).
// The handle stays in use until the peer's detach.
func (l *link) refuse(a *amqp.Attach, e *amqp.Error) {
	l.c.log.Info("servicebus: attach refused", "link", loggable(a.Name), "entity", loggable(l.at.path), "condition", e.Condition,
		"text", loggable(e.Description))
	if a.Role == amqp.RoleReceiver {
		l.c.onRefused(l, e.Condition, e.Description)
	}
	l.c.out.frame(l.s.channel, l.refusalOf(a))
	l.detached = true
	l.writeDetach(l.failure(e.Condition, e.Description))
	l.bare()
	l.s.links[l.handle] = l
	l.hold(detachedCost)
	l.c.links.awaitDetach()
}

// refusalOf returns an attach without termini; a detach has to follow.
func (l *link) refusalOf(a *amqp.Attach) *amqp.Attach {
	reply := &amqp.Attach{Name: a.Name, Handle: a.Handle, Role: !a.Role, SenderSettleMode: a.SenderSettleMode, ReceiverSettleMode: a.ReceiverSettleMode}
	// no client has a longer name, and a long text of a peer that is not logged in need not be
	// repeated
	if !l.c.allowed.loggedIn {
		reply.Name = message.Short(a.Name, maxLinkName)
	}
	if a.Role == amqp.RoleSender {
		reply.MaxMessageSize = amqp.Some(uint64(l.c.limits.RequestSize))
	} else {
		reply.InitialDeliveryCount = amqp.Some(uint32(0))
	}
	return reply
}

// writeAttach answers the attach with the broker's own limits, with the addresses byte for byte and
// the settle modes as received (3.1, 4.1), and with the other fields that the broker honours. If
// the peer's frames are too small for the answer, it refuses the attach and returns false.
func (l *link) writeAttach(a *amqp.Attach) bool {
	reply := amqp.Attach{
		Name: a.Name, Handle: a.Handle, Role: !a.Role,
		SenderSettleMode: a.SenderSettleMode, ReceiverSettleMode: a.ReceiverSettleMode,
		Source: l.sourceOf(a), Target: targetOf(a),
	}
	if l.filter != nil {
		reply.Properties = amqp.Map{{Key: amqp.Symbol("com.microsoft:locked-until-utc"), Value: l.receiver.grant.LockedUntil.Ticks()}}
	}
	if l.sender != nil {
		reply.MaxMessageSize = amqp.Some(uint64(l.sender.maxSize))
		if l.sender.maxSize > l.c.limits.BatchSize && !l.at.management {
			reply.Properties = amqp.Map{{Key: amqp.Symbol("com.microsoft:max-message-batch-size"), Value: uint64(l.c.limits.BatchSize)}}
		}
		if to, _ := a.Properties.Get(keyDestination); to != nil && !l.at.node() {
			reply.Properties = append(reply.Properties, amqp.Pair{Key: amqp.Symbol(keyDestination), Value: to})
		}
	} else {
		reply.InitialDeliveryCount = amqp.Some(uint32(0))
		// Not the entity's limit: a message with the broker's additions, or the answer to a peek,
		// is larger, and go-amqp closes a link that delivers more than was announced.
		reply.MaxMessageSize = amqp.Some(uint64(math.MaxInt32))
	}
	if !l.c.out.fits(&reply) {
		l.c.out.frame(l.s.channel, l.refusalOf(a))
		l.end(amqp.CondFrameSizeTooSmall, fmt.Sprintf("The answer to the attach has more than %d bytes.", l.c.out.maxFrame))
		return false
	}
	l.c.out.frame(l.s.channel, &reply)
	return true
}

// maxMessageSize returns the entity's limit in bytes.
func (l *link) maxMessageSize() int {
	if l.target.Entity == nil {
		return max(l.c.limits.RequestSize, 65536)
	}
	size := messageSizeLimit(l.c.broker, l.target.Entity)
	if l.transfer.destination != nil {
		size = min(size, messageSizeLimit(l.c.broker, l.transfer.destination))
	}
	if l.at.management { // a request may contain a message, or the state of a session
		size += max(l.c.limits.RequestSize, 65536)
	}
	return size
}

// messageSizeLimit returns the limit of an entity's messages in bytes; a subscription has that of
// its topic.
func messageSizeLimit(broker engine.Broker, e *engine.Entity) int {
	if e.Kind == event.Subscription {
		if topic, err := broker.Resolve(e.TopicPath()); err == nil {
			e = topic.Entity
		}
	}
	return int(e.Properties.MaxMessageSizeKilobytes) << 10
}

// role returns the peer's role.
func (l *link) role() amqp.Role {
	if l.sender != nil {
		return amqp.RoleSender
	}
	return amqp.RoleReceiver
}

func (l *link) touch() { l.active = l.c.now }

// leadsTo reports whether the link is to an entity or to its management node.
func (l *link) leadsTo(e *engine.Entity) bool {
	return !l.detached && l.target.Entity != nil && (l.target.Entity.ID == e.ID || l.transfer.endsAt(e))
}

// end detaches the link because of an error; the handle stays in use until the peer's detach.
func (l *link) end(symbol amqp.Symbol, text string) { l.endFor(event.ReleaseLinkLost, symbol, text) }

// endFor is end with the cause for the release of a message session.
func (l *link) endFor(cause event.ReleaseCause, symbol amqp.Symbol, text string) {
	if l.detached {
		return
	}
	l.c.log.Info("servicebus: link detached", "link", loggable(l.name), "entity", loggable(l.at.path), "condition", symbol, "text", loggable(text))
	if l.receiver != nil {
		l.c.onRefused(l, symbol, text)
	}
	e := l.failure(symbol, text)
	l.leave(cause, closedBy(event.ClosedByBroker, e))
	l.c.links.awaitDetach()
	l.c.answers.flush()
	l.answerAttach()
	l.writeDetach(e)
}

// answerAttach refuses an attach that has no answer yet: a detach may only follow an attach.
func (l *link) answerAttach() {
	if w := l.attaching; w != nil {
		l.attaching = nil
		l.c.out.frame(l.s.channel, l.refusalOf(w.attach(l.c)))
	}
}

// failure returns an error that ends the link, with the whole text for the client and the log.
func (l *link) failure(symbol amqp.Symbol, text string) *amqp.Error {
	return &amqp.Error{Condition: symbol, Description: l.c.texts.suffixed(text, l.at.path, l.c.now)}
}

func (l *link) writeDetach(e *amqp.Error) {
	l.c.out.frame(l.s.channel, &amqp.Detach{Handle: l.handle, Closed: true, Error: e})
}

// leave releases everything the link holds, with the cause for a message session, and logs the
// reason; nothing is sent.
func (l *link) leave(cause event.ReleaseCause, closed event.LinkClosed) {
	if l.detached {
		return
	}
	l.detached = true
	c := l.c
	if l.sender != nil {
		l.sender.leave(closed)
	} else {
		l.receiver.leave(cause, closed)
	}
	c.links.remove(l)
	if l.at.counts() {
		c.timers.detached(c)
	}
}

// canIdle reports whether the link is detached when it is idle. Links to $cbs are not: clients keep
// a pair for as long as their connection and put the next token many minutes later (2.1, 2.6);
// azure-servicebus for Python does not recover from the loss of it. Nor are coordinators, which are
// idle while a client only receives.
func (l *link) canIdle() bool { return !l.detached && l.attaching == nil && l.at.counts() }

// detachIdle detaches the link if it has been idle for long (1.8).
func (l *link) detachIdle() {
	limit := l.c.limits.LinkIdle
	if !l.canIdle() || l.c.now.Before(l.active.Add(limit)) {
		return
	}
	idle := hms(limit)
	if l.sender != nil {
		l.end(amqp.CondDetachForced, fmt.Sprintf("The link '%s' is force detached by the broker due to errors occurred in publisher(link%d). "+
			"Detach origin: AmqpMessagePublisher.IdleTimerExpired: Idle timeout: %s.", l.name, l.handle, idle))
	} else {
		l.end(amqp.CondDetachForced, fmt.Sprintf("The link '%s' is force detached. Code: consumer(link%d). "+
			"Details: AmqpMessageConsumer.IdleTimerExpired: Idle timeout: %s.", l.name, l.handle, idle))
	}
}

// detachUnclaimed detaches the link if its claim has expired without a successor (2.6).
func (l *link) detachUnclaimed() {
	if l.detached || l.right == 0 {
		return
	}
	at := l.at
	_, ok := l.c.claims.allow(at.claimPath(), l.right, l.c.now)
	if ok && l.transfer.destination != nil {
		at = l.transfer.to
		_, ok = l.c.claims.allow(at.claimPath(), l.right, l.c.now)
	}
	if !ok {
		l.end(amqp.CondDetachForced, fmt.Sprintf("The link '%s' is force detached. Code: RenewToken. Details: %s.",
			l.name, l.c.unauthorized(l.right, at)))
	}
}

// hms returns a duration as the service writes it: 00:10:00, or 00:00:00.5000000.
func hms(d time.Duration) string {
	s := int(d / time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
	if part := d % time.Second; part > 0 {
		text += fmt.Sprintf(".%07d", part/100)
	}
	return text
}
