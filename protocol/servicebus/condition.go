package servicebus

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// scope says what a failure ends.
type scope uint8

const (
	endsDelivery scope = iota // rejected; the link continues
	endsLink                  // detach
)

// condition is the form of a refusal on the wire.
type condition struct {
	symbol amqp.Symbol
	status int32  // of a management reply
	ends   scope  // on a sending link; a settlement always ends only its delivery
	more   string // after the engine's text
}

const (
	sessionText          = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
	noSessionsText       = "A sessionful message receiver cannot be created on an entity that does not require sessions."
	subQueueSessionText  = "Cannot create a MessageSession for a sub-queue."
	noSessionBrowserText = "Browsing (distribution-mode copy) with a session filter is not implemented."
	quotaText            = " For more information please see https://aka.ms/ServiceBusExceptions .  QuotaType: EntitySize"
	notFoundText         = "The messaging entity '%s' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions. "
)

// conditions is the only table from engine codes to the wire (8.2, 6.2). The texts are the
// engine's, except those that depend on the name the client used or on the time it waited.
var conditions = [...]condition{
	engine.NotFound:               {symbol: amqp.CondNotFound, status: 404, ends: endsLink},
	engine.NoMatchingSubscription: {symbol: amqp.CondNoMatchingSubscription, status: 500},
	engine.MessageNotFound:        {symbol: amqp.CondMessageNotFound, status: 404},
	engine.LockLost:               {symbol: amqp.CondMessageLockLost, status: 410},
	engine.Disabled:               {symbol: amqp.CondEntityDisabled, status: 400},
	engine.QuotaExceeded:          {symbol: amqp.CondResourceLimit, status: 403},
	engine.NotAllowed:             {symbol: amqp.CondNotAllowed, status: 400},
	engine.InvalidArgument:        {symbol: amqp.CondArgumentError, status: 400},
	engine.MessageTooLarge:        {symbol: amqp.CondMessageSizeExceeded, status: 403},
	engine.Busy:                   {symbol: amqp.CondServerBusy, status: 503},
	engine.NotImplemented:         {symbol: amqp.CondNotImplemented, status: 501},
	engine.AlreadyExists:          {symbol: amqp.CondEntityAlreadyExists, status: 409},
	engine.SessionLockLost:        {symbol: amqp.CondSessionLockLost, status: 410},
	engine.SessionCannotBeLocked:  {symbol: amqp.CondSessionCannotBeLocked, status: 410},
	engine.Timeout:                {symbol: amqp.CondTimeout, status: 408},
	engine.EntityFull:             {symbol: amqp.CondResourceLimit, status: 403, more: quotaText},
	engine.UnknownTransaction:     {symbol: amqp.CondTransactionUnknownID, status: 400},
	engine.TransactionFailed:      {symbol: amqp.CondTransactionRollback, status: 400},
}

// conditionOf turns an engine error into a condition and a text for the peer. An error that is not
// a refusal, such as [engine.ErrUnknown], ends the link with a condition that every SDK retries:
// 'rejected' would claim that nothing happened.
func conditionOf(err error) (condition, string) {
	var refusal *engine.Error
	if !errors.As(err, &refusal) || int(refusal.Code) >= len(conditions) || conditions[refusal.Code].symbol == "" {
		return condition{symbol: amqp.CondDetachForced, status: 503, ends: endsLink},
			"The operation's outcome is unknown because the partition stopped; try again."
	}
	c := conditions[refusal.Code]
	return c, refusal.Text + c.more
}

// describe returns the condition and text for the peer of a link. If an entity is missing, the text
// names the entity that the link's messages are for.
func (l *link) describe(err error) (condition, string) {
	if l.transfer.destination != nil {
		return l.c.describeAt(err, l.transfer.to)
	}
	return l.c.describeAt(err, l.at)
}

// describeAt returns the condition and text for an address. If the entity does not exist, the text
// has the words that SDKs look for (8.4).
func (c *conn) describeAt(err error, at address) (condition, string) {
	cond, text := conditionOf(err)
	if cond.symbol == amqp.CondNotFound {
		text = c.missing(at)
	}
	return cond, text
}

// missing returns the text for an address without an entity. It repeats the address in the peer's
// words, as far as the peer's frames have room for them.
func (c *conn) missing(at address) string {
	room, _ := c.texts.room()
	return fmt.Sprintf(notFoundText, message.Short("sb://"+c.hostOf(at)+"/"+at.text, max(room-len(notFoundText), 16)))
}

// hostOf returns the host of an address in the peer's words: that of the address, or else of the
// peer's open.
func (c *conn) hostOf(at address) string { return cmp.Or(at.host, c.peer.hostname, c.namespace) }

// trackingSuffix makes the texts of 8.4: every text ends with the data that an operator needs to
// find its cause.
type trackingSuffix struct {
	namespace string
	newID     func() string
}

// suffixed appends the suffix. entity may be empty.
func (t *trackingSuffix) suffixed(text, entity string, now time.Time) string {
	var b strings.Builder
	b.WriteString(text)
	b.WriteString(" TrackingId:")
	b.WriteString(t.newID())
	b.WriteString(", SystemTracker:")
	b.WriteString(t.namespace)
	if entity != "" {
		b.WriteString(":")
		b.WriteString(entity)
	}
	b.WriteString(", Timestamp:")
	b.WriteString(now.UTC().Format("2006-01-02T15:04:05"))
	return b.String()
}
