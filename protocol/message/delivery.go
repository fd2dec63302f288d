package message

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// View says how a message is encoded: receivers and peeks get different fields (semantics.md 7.3,
// 14.2).
type View struct {
	Peek      bool // the message is browsed and not received
	OmitBody  bool // body and footer are left out
	LockToken bool // the message is locked: the delivery annotations have the lock token
	// the message is delivered without a lock: there are delivery annotations, even if the map is
	// empty
	Taken bool
}

// AppendDelivery appends a stored message in the form of a delivery: the sender's sections with
// those of the broker around them (5.1, 5.2). stored is the content of d.Body, changes that of
// d.Changes, the oldest first. It sets d.Header. An error means that stored or changes are damaged,
// and that the returned bytes must not be used.
func AppendDelivery(dst, stored []byte, d *engine.Delivery, changes [][]byte, v View) ([]byte, error) {
	s, err := splitSections(stored)
	if err != nil {
		return dst, err
	}
	d.Header = uint32(len(stored) - len(s.tail))
	var h amqp.Header
	if s.header != nil {
		if h, err = amqp.DecodeHeader(s.header); err != nil {
			return dst, err
		}
	}
	o, err := readOverlay(changes)
	if err != nil {
		return dst, err
	}
	shown := limitOf(d, &s, h.TTL.Value, v, o)
	dst = appendHeader(dst, &h, d.DeliveryCount, shown.ttl)
	dst = appendDeliveryAnnotations(dst, s.deliveryAnnotations, d, v)
	dst = appendMessageAnnotations(dst, s.messageAnnotations, d, v, o)
	dst = appendProperties(dst, s.properties, &shown, o)
	dst = o.appendApplication(dst, s.applicationProperties)
	if v.OmitBody {
		return dst, nil
	}
	return append(dst, s.tail...), nil
}

// parts are the sections of a stored message. The message was checked when it was sent, so only the
// section boundaries are searched for.
type parts struct {
	header, deliveryAnnotations, messageAnnotations, properties, applicationProperties []byte
	// body and footer
	tail []byte
}

var errStored = errors.New("message: stored bytes are no message")

// HeaderSize returns the bytes of a stored message that are not body or footer. stored may be cut
// anywhere after the start of the body. An error means that it is cut before that, or is not a
// stored message.
func HeaderSize(stored []byte) (int, error) {
	s, err := splitSections(stored)
	return len(stored) - len(s.tail), err
}

func splitSections(b []byte) (p parts, err error) {
	for len(b) > 0 {
		if len(b) < 4 || b[0] != amqp.CodeDescribed || b[1] != amqp.CodeSmallUlong {
			return p, errStored
		}
		code := b[2]
		if code >= amqp.SectionData {
			p.tail = b
			return p, nil
		}
		n := 3 + amqp.RawSize(b[3:])
		if n < 4 {
			return p, errStored
		}
		section := b[:n:n]
		b = b[n:]
		switch code {
		case amqp.SectionHeader:
			p.header = section
		case amqp.SectionDeliveryAnnotations:
			p.deliveryAnnotations = section
		case amqp.SectionMessageAnnotations:
			p.messageAnnotations = section
		case amqp.SectionProperties:
			p.properties = section
		case amqp.SectionApplicationProperties:
			p.applicationProperties = section
		default:
			return p, errStored
		}
	}
	return p, nil
}

// limit holds the lifetime that a message shows (semantics.md 7.3). With the zero value the times
// are as they were sent.
type limit struct {
	ttl               time.Duration // 0: none is shown
	expires, creation event.Time    // expires is 0 if the times are the sender's
	// the sender's expiry time means that there is none, and is left out
	never bool
}

// limitOf returns the lifetime to show for a message whose header was sent with a ttl.
func limitOf(d *engine.Delivery, s *parts, ttl uint32, v View, o *overlay) limit {
	own := d.TimeToLive
	if own < 0 {
		between := timesOf(s.properties)
		own = storedTimeToLive(ttl, &between)
	}
	own = lifetime(own.Milliseconds()) // older versions stored "never" as a time to live
	l := limit{ttl: own, expires: d.ExpiresAt, creation: d.EnqueuedAt}
	c, changed := o.changed(filter.TimeToLive)
	if changed { // only shown: the message still expires at the original time
		l.ttl = lifetime(c.time)
	}
	switch {
	case v.Peek && own == 0 && l.ttl == 0:
		l.expires = 0 // a limit that comes from the entity alone is not shown
	case l.ttl == 0 && l.expires != 0 && !changed:
		l.ttl = l.expires.Sub(d.EnqueuedAt)
	case l.ttl != 0 && l.expires == 0: // its lifetime has not begun
		l.expires = d.EnqueuedAt.Add(l.ttl)
	}
	if l.ttl != 0 {
		// the enqueued time, unless an action changed the time to live
		l.creation = l.expires - event.Time(l.ttl.Milliseconds())
	}
	if l.expires == 0 && ttl == math.MaxUint32 {
		between := timesOf(s.properties)
		life, e := timeToLive(ttl, &between)
		l.never = e == nil && life == 0
	}
	return l
}

// appendHeader appends the header that every delivery has (0.12): the sender's header, with the
// current time to live and delivery count (5.1).
func appendHeader(dst []byte, h *amqp.Header, count uint32, ttl time.Duration) []byte {
	h.DeliveryCount, h.TTL = amqp.Some(count), amqp.Opt[uint32]{}
	if ttl != 0 {
		h.TTL = amqp.Some(uint32(min(ttl.Milliseconds(), math.MaxUint32)))
	}
	return amqp.AppendHeader(dst, h)
}

// appendDeliveryAnnotations appends the lock token, if there is one, and then the sender's delivery
// annotations without any lock token that the sender set (5.2).
func appendDeliveryAnnotations(dst, sent []byte, d *engine.Delivery, v View) []byte {
	start := len(dst)
	switch {
	case v.LockToken && sent == nil: // the usual case
		return append(append(dst, onlyLockToken...), d.Token[:]...)
	case v.LockToken:
		return appendMapSection(dst, amqp.SectionDeliveryAnnotations, sent, isLockToken, func(dst []byte) ([]byte, int) {
			return amqp.AppendUUID(amqp.AppendSymbol(dst, keyLockToken), amqp.UUID(d.Token)), 1
		})
	case sent != nil:
		dst = appendMapSection(dst, amqp.SectionDeliveryAnnotations, sent, isLockToken, nil)
	}
	if v.Taken && len(dst) == start {
		return append(dst, noDeliveryAnnotations...)
	}
	return dst
}

// The delivery annotations of nearly all transfers: a map with only the lock token, whose 16 bytes
// follow, or an empty map.
const (
	onlyLockToken         = "\x00\x53\x71\xc1\x24\x02\xa3\x10" + keyLockToken + "\x98"
	noDeliveryAnnotations = "\x00\x53\x71\xc1\x01\x00"
)

func isLockToken(key []byte) bool { return string(key) == keyLockToken }

// appendMessageAnnotations replaces the broker's annotations and keeps the sender's others, except
// those that a rule action changed.
func appendMessageAnnotations(dst, sent []byte, d *engine.Delivery, v View, o *overlay) []byte {
	drop := o.replaces
	if d.DeadLetterSource != "" {
		drop = func(key []byte) bool { return string(key) == keyDeadLetterSource || o.replaces(key) }
	}
	return appendMapSection(dst, amqp.SectionMessageAnnotations, sent, drop, func(dst []byte) ([]byte, int) {
		dst, n := o.appendAnnotations(dst)
		n += 2
		dst = amqp.AppendTimestamp(amqp.AppendSymbol(dst, keyEnqueuedTime), amqp.Timestamp(d.EnqueuedAt))
		dst = appendLong(amqp.AppendSymbol(dst, keySequence), int64(d.Sequence))
		if d.EnqueuedSequence != 0 {
			dst = appendLong(amqp.AppendSymbol(dst, keyEnqueueSequence), int64(d.EnqueuedSequence))
			n++
		}
		if d.DeadLetterSource != "" {
			dst = amqp.AppendString(amqp.AppendSymbol(dst, keyDeadLetterSource), d.DeadLetterSource)
			n++
		}
		if d.LockedUntil != 0 {
			dst = amqp.AppendTimestamp(amqp.AppendSymbol(dst, keyLockedUntil), amqp.Timestamp(d.LockedUntil))
			n++
		}
		state := d.State
		// a receiver is still shown that it was scheduled (semantics.md 2.1)
		if state == engine.MessageActive && d.WasScheduled && !v.Peek {
			state = engine.MessageScheduled
		}
		if state != engine.MessageActive || v.Peek {
			dst = amqp.AppendInt(amqp.AppendSymbol(dst, keyState), stateOnWire[state])
			n++
		}
		return dst, n
	})
}

// stateOnWire maps states to x-opt-message-state (5.2).
var stateOnWire = [...]int32{engine.MessageActive: 0, engine.MessageDeferred: 1, engine.MessageScheduled: 2}

// isBrokers reports whether the broker sets an annotation (5.2).
func isBrokers(key []byte) bool {
	switch string(key) {
	case keyEnqueuedTime, keySequence, keyEnqueueSequence, keyLockedUntil, keyState, keyPartitionID, keyLockToken:
		return true
	}
	return false
}

// appendLong appends a long in eight bytes: some decoders require that for sequence numbers.
func appendLong(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, amqp.CodeLong), uint64(v))
}

// appendMapSection appends a map section: the entries that first appends, then the entries of sent
// for which drop is false. An empty map is left out.
func appendMapSection(dst []byte, code byte, sent []byte, drop func([]byte) bool, first func([]byte) ([]byte, int)) []byte {
	start := len(dst)
	dst = amqp.AppendDescriptor(dst, code)
	dst, mark := amqp.BeginMap(dst)
	pairs := 0
	if first != nil {
		dst, pairs = first(dst)
	}
	for entry, key := range mapEntries(sent) {
		if drop(key) {
			continue
		}
		dst = append(dst, entry...)
		pairs++
	}
	if pairs == 0 {
		return dst[:start]
	}
	return amqp.EndMap(dst, mark, pairs)
}

// mapEntries iterates over the entries of a map section: key and value as encoded, with the text of
// the key.
func mapEntries(section []byte) func(yield func(entry, key []byte) bool) {
	return func(yield func(entry, key []byte) bool) {
		b := section
		if len(b) > 3 && b[0] == amqp.CodeDescribed {
			b = b[3:]
		}
		for b = amqp.RawElements(b); len(b) > 0; {
			k := amqp.RawSize(b)
			if k < 0 {
				return
			}
			v := amqp.RawSize(b[k:])
			if v < 0 {
				return
			}
			key, _ := amqp.RawText(b[:k])
			if !yield(b[:k+v:k+v], key) {
				return
			}
			b = b[k+v:]
		}
	}
}

// appendProperties appends the properties unchanged, unless their times have to show the expiry
// (semantics.md 7.3) or an action has changed some. SDKs use the difference of the two times as the
// time to live, so both are the broker's or both are the sender's.
func appendProperties(dst, sent []byte, l *limit, o *overlay) []byte {
	if l.expires == 0 && !l.never && sent != nil && (o == nil || !o.properties) {
		return append(dst, sent...)
	}
	dst = amqp.AppendDescriptor(dst, amqp.SectionProperties)
	dst, mark := amqp.BeginList(dst)
	for i := amqp.FieldMessageID; i <= amqp.FieldReplyToGroupID; i++ {
		raw, ok := amqp.PropertiesField(sent, i)
		changed := false
		if dst, changed = o.field(dst, i); changed {
			continue
		}
		switch {
		case i == amqp.FieldAbsoluteExpiryTime && l.expires != 0:
			dst = amqp.AppendTimestamp(dst, amqp.Timestamp(l.expires))
		case i == amqp.FieldCreationTime && l.expires != 0:
			dst = amqp.AppendTimestamp(dst, amqp.Timestamp(l.creation))
		case i == amqp.FieldAbsoluteExpiryTime && l.never || !ok:
			dst = amqp.AppendNull(dst)
		default:
			dst = append(dst, raw...)
		}
	}
	return amqp.EndList(dst, mark, 13)
}

// DeliveryTag returns a lock token as a delivery tag: a GUID in .NET byte order (4.5).
func DeliveryTag(t event.LockToken) (tag [16]byte) {
	tag = t
	tag[0], tag[1], tag[2], tag[3] = t[3], t[2], t[1], t[0]
	tag[4], tag[5] = t[5], t[4]
	tag[6], tag[7] = t[7], t[6]
	return tag
}
