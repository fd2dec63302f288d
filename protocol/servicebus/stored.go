package servicebus

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// messageReader reads messages back, for deliveries and for answers to requests.
type messageReader struct {
	broker engine.Broker
	limits *Limits
	log    *slog.Logger
}

// encode reads a delivery's bytes and appends the message to dst.
func (s *messageReader) encode(dst []byte, target engine.Target, d *engine.Delivery, v message.View, ahead *readAhead, far bool) ([]byte, error) {
	host := target.Host(target.OfSequence(d.Sequence))
	var changes [][]byte
	for i := range d.Changes {
		if d.Changes[i].Size == 0 {
			continue
		}
		b, err := ahead.blob(s.broker, host, &d.Changes[i], false)
		if err != nil {
			return dst, err
		}
		changes = append(changes, append([]byte(nil), b...))
	}
	body, err := ahead.blob(s.broker, host, &d.Body, far)
	if err != nil {
		return dst, err
	}
	return message.AppendDelivery(dst, body, d, changes, v)
}

// isTemporary reports whether stored bytes could not be read for a temporary reason.
func isTemporary(err error) bool {
	refusal := (*engine.Error)(nil)
	return errors.As(err, &refusal) && refusal.Code == engine.Busy
}

// reportDamage reports a stored message that cannot be read back, unless the reason is temporary.
func (s *messageReader) reportDamage(target engine.Target, d *engine.Delivery, err error) {
	if isTemporary(err) {
		return
	}
	// it was received and deleted, or browsed, and is not needed any more
	if errors.Is(err, event.ErrErased) && d.Token == (event.LockToken{}) {
		s.log.Warn("servicebus: delivery dropped: the body was freed while the message waited for its receiver", "entity", target.Entity.Path,
			"sequence", uint64(d.Sequence))
		return
	}
	host := target.Host(target.OfSequence(d.Sequence))
	if errors.Is(err, event.ErrErased) { // the partition knows whether it is still needed
		s.broker.ReportDamage(host, d.Token, fmt.Errorf("message %d of '%s': %w", d.Sequence, target.Entity.Path, event.ErrErased))
		return
	}
	s.log.Error("servicebus: message not delivered: "+unreadableBecause(err), "entity", target.Entity.Path,
		"sequence", uint64(d.Sequence), "partition", host, "position", uint64(d.Body.Position), "error", err)
	s.broker.ReportDamage(host, d.Token, err)
}

// unreadableBecause returns the fault of stored bytes for the operator's log.
func unreadableBecause(err error) string {
	if errors.Is(err, event.ErrErased) {
		return "internal fault: its stored bytes were erased"
	}
	return "its stored bytes are damaged"
}

// list returns the list of messages of an answer, cut before it exceeds room bytes; it always has
// the first message.
func (s *messageReader) list(target engine.Target, deliveries []engine.Delivery, v message.View, room int) amqp.List {
	var ahead readAhead
	defer ahead.drop()
	var messages amqp.List
	for i := range deliveries {
		d := &deliveries[i]
		b, err := s.encode(nil, target, d, v, &ahead, i+1 < len(deliveries))
		for range readTries {
			if !isTemporary(err) {
				break
			}
			b, err = s.encode(nil, target, d, v, &ahead, i+1 < len(deliveries))
		}
		if isTemporary(err) {
			break
		}
		if err != nil {
			s.reportDamage(target, d, err)
			continue
		}
		if room -= len(b) + entryRoom; room < 0 && len(messages) > 0 {
			break
		}
		entry := amqp.Map{{Key: "message", Value: b}}
		if v.LockToken {
			entry = append(amqp.Map{{Key: "lock-token", Value: amqp.UUID(d.Token)}}, entry...)
		}
		messages = append(messages, entry)
	}
	return messages
}

// readTries bounds the tries to read a message for an answer; each waits a moment. After the last
// one the answer has only the messages before.
const readTries = 20

const (
	answerRoom = 1 << 10 // bytes of an answer without its messages, at most
	entryRoom  = 64      // bytes of the entry of a message without the message
)

// headerSize returns the bytes of a stored message that are not body or footer. It reads only the
// beginning of a large message.
func (s *messageReader) headerSize(t engine.Target, d *engine.Delivery, ahead *readAhead) (int, error) {
	start := int(min(d.Body.Size, uint32(s.limits.HeaderSize)+headerRoom))
	host := t.Host(t.OfSequence(d.Sequence))
	if err := ahead.fill(s.broker, host, &d.Body, start, false); err != nil {
		return 0, err
	}
	b := (*ahead.buf)[:start]
	n, err := message.HeaderSize(b)
	if err == nil {
		return n, nil
	}
	// damaged, or stored when more was allowed: its checksum shows which
	if b, err = ahead.blob(s.broker, host, &d.Body, false); err != nil {
		return 0, err
	}
	return message.HeaderSize(b)
}

// headerRoom is the bytes by which a stored message, without its body, may exceed the limit: the
// message-id that the broker gave it, and the start of its body section.
const headerRoom = 1 << 10
