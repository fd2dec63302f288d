package servicebus

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Every refusal of the engine has a condition and a status, those of 8.2, and its own text,
// followed by the suffix of 8.4.
func TestConditions(t *testing.T) {
	type told struct {
		symbol amqp.Symbol
		status int32
		text   string
	}
	const own = "Text."
	want := map[engine.Code]told{
		engine.NotFound:               {"amqp:not-found", 404, own},
		engine.MessageNotFound:        {"com.microsoft:message-not-found", 404, own},
		engine.LockLost:               {"com.microsoft:message-lock-lost", 410, own},
		engine.Disabled:               {"com.microsoft:entity-disabled", 400, own},
		engine.QuotaExceeded:          {"amqp:resource-limit-exceeded", 403, own},
		engine.NotAllowed:             {"amqp:not-allowed", 400, own},
		engine.InvalidArgument:        {"com.microsoft:argument-error", 400, own},
		engine.MessageTooLarge:        {"amqp:link:message-size-exceeded", 403, own},
		engine.Busy:                   {"com.microsoft:server-busy", 503, own},
		engine.NotImplemented:         {"amqp:not-implemented", 501, own},
		engine.AlreadyExists:          {"com.microsoft:entity-already-exists", 409, own},
		engine.SessionLockLost:        {"com.microsoft:session-lock-lost", 410, own},
		engine.SessionCannotBeLocked:  {"com.microsoft:session-cannot-be-locked", 410, own},
		engine.Timeout:                {"com.microsoft:timeout", 408, own},
		engine.NoMatchingSubscription: {"com.microsoft:no-matching-subscription", 500, own},
		engine.EntityFull:             {"amqp:resource-limit-exceeded", 403, own + " For more information please see https://aka.ms/ServiceBusExceptions .  QuotaType: EntitySize"},
		engine.UnknownTransaction:     {"amqp:transaction:unknown-id", 400, own},
		engine.TransactionFailed:      {"amqp:transaction:rollback", 400, own},
	}
	for code := range conditions {
		code := engine.Code(code)
		if code == 0 {
			continue
		}
		c, text := conditionOf(fmt.Errorf("wrapped: %w", &engine.Error{Code: code, Text: own}))
		if got := (told{c.symbol, c.status, text}); got != want[code] {
			t.Errorf("code %d: %+v instead of %+v", code, got, want[code])
		}
	}
	if c, text := conditionOf(engine.SessionLost()); c.symbol != "com.microsoft:session-lock-lost" || text != engine.SessionLostText {
		t.Errorf(`%+v %q; want c.symbol == "com.microsoft:session-lock-lost" && text == engine.SessionLostText`, c, text)
	}
	if engine.LockLostText+" TrackingId:" != lockLost || engine.SessionLostText != "The session lock was lost. Request a new session receiver." {
		t.Error("clients look for other texts")
	}
	if len(conditions) != len(want)+1 {
		t.Errorf("%d conditions", len(conditions)-1)
	}
	// the outcome is unknown
	for _, err := range []error{engine.ErrUnknown, &engine.Error{Code: engine.TransactionFailed + 1}, io.EOF} {
		if c, text := conditionOf(err); c.symbol != "amqp:link:detach-forced" || c.status != 503 || c.ends != endsLink || text == "" {
			t.Errorf(`%v: %+v %q; want c.symbol == "amqp:link:detach-forced" && c.status == 503 && c.ends == endsLink && text != ""`, err, c, text)
		}
	}
}

// WP-086, SM-007, SM-322, 8.4: a full entity refuses with both figures and where to read about it;
// once there is room, sends pass again.
func TestEntityFull(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("small", func(p *event.Properties) { p.MaxSizeMegabytes = 1 })
		p := b.root()
		p.attachSender(1, "small")
		p.attachManagement("small")
		body := strings.Repeat("x", 250<<10)
		for i := range uint32(4) {
			p.send(1, i, newMessage(fmt.Sprint(i), body))
		}
		p.transfer(1, 4, newMessage("4", body))
		text := p.rejected(4, amqp.CondResourceLimit).Description
		for _, part := range []string{"The maximum entity size has been reached or exceeded for Queue: '", "small'. Size of entity in bytes:", ", Max entity size in bytes: 1048576.",
			" For more information please see https://aka.ms/ServiceBusExceptions .  QuotaType: EntitySize TrackingId:"} {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in %q", part, text)
			}
		}
		p.managedWith(403, amqp.CondResourceLimit, "schedule-message", scheduleBody(append(scheduled("a", time.Now().Add(time.Hour)), amqp.AppendData(nil, []byte(body))...)))
		p.attachReceiver(2, "small", amqp.SenderSettled)
		p.credit(2, 0, 1, false)
		p.receive()
		p.send(1, 5, newMessage("5", body))
	})
}

// SM-307, SM-308: what each status forbids, at attach and in requests; the messages stay.
func TestStatus(t *testing.T) {
	for status, may := range map[event.Status]struct{ send, receive bool }{
		event.Active: {true, true}, event.SendDisabled: {false, true}, event.ReceiveDisabled: {true, false}, event.Disabled: {false, false},
	} {
		bubble(t, nil, func(b *bench) {
			b.put("q", newMessage("a", "x"))
			b.queue("q", func(p *event.Properties) { p.Status = status })
			p := b.root()
			p.attachManagement("q")
			check := func(what string, want bool, refused amqp.Symbol) {
				t.Helper()
				if want == (refused == amqp.CondEntityDisabled) {
					t.Errorf("%v: %s: %q; want want != (refused == amqp.CondEntityDisabled)", status, what, refused)
				}
			}
			for name, test := range map[string]struct {
				body amqp.Map
				may  bool
			}{
				"peek-message":       {amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}}, may.receive},
				"update-disposition": {amqp.Map{{Key: "lock-tokens", Value: uuids(amqp.UUID{1})}, {Key: "disposition-status", Value: "completed"}}, may.receive},
				"schedule-message":   {scheduleBody(scheduled("s", time.Now().Add(time.Hour))), may.send},
				// SM-406
				"cancel-scheduled-message": {numbers(int64(99)), status != event.Disabled},
			} {
				code, properties, _ := p.manage(operationPrefix+name, test.body)
				c, _ := properties.Get("errorCondition")
				symbol, _ := c.(amqp.Symbol)
				check(name, test.may, symbol)
				if text, _ := properties.Get("statusDescription"); !test.may && (code != 400 || !strings.HasPrefix(fmt.Sprint(text), "The messaging entity 'q' is disabled for ")) {
					t.Errorf(`%v: %s: %d, %v; want 400 and "The messaging entity 'q' is disabled for …"`, status, name, code, text)
				}
			}
			symbol := func(a *amqp.Attach) amqp.Symbol {
				if a.Source != nil {
					return ""
				}
				return expect[*amqp.Detach](p).Error.Condition
			}
			check("send", may.send, symbol(p.attachSender(1, "q")))
			check("receive", may.receive, symbol(p.attachReceiver(2, "q", amqp.SenderSettled)))
			b.queue("q", nil)
			again := b.root()
			again.attachReceiver(2, "q", amqp.SenderSettled)
			again.credit(2, 0, 1, false)
			again.receive()
		})
	}
}
