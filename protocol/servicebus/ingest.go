package servicebus

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// ingestOne makes cmd store one message, whose bytes are in buf, or in kept if the send is staged
// in a transaction. If it refuses, cmd holds no buffer.
func (c *conn) ingestOne(cmd *engine.Send, body []byte, buf *chunk, kept *stagingMemory) *amqp.Error {
	in, e := c.inspect(body)
	if e != nil {
		return e
	}
	seen := newFilterInput(cmd, 1)
	c.complete(&in, buf, kept, seen)
	cmd.Messages[0], cmd.Buffer = in.Message, seen.with(buf)
	return nil
}

// inspect is [message.Inspect] within the connection's limits.
func (c *conn) inspect(body []byte) (message.Sent, *amqp.Error) {
	return message.Inspect(body, &message.Limits{
		Decode: c.decoder.Limits, IDLength: c.limits.IDLength, PropertySize: c.limits.PropertySize, HeaderSize: c.limits.HeaderSize,
	})
}

// complete gives a message an id if it has none, and keeps the parts that filters read, if there
// are any. The id is written into buf or kept, or into separate memory if both are nil.
func (c *conn) complete(in *message.Sent, buf *chunk, kept *stagingMemory, seen *filterInput) {
	if seen != nil {
		seen.read(in)
	}
	if in.HasID() {
		return
	}
	var room []byte
	switch size := in.SpliceSize(); {
	case buf != nil:
		room = buf.carve(size)
	case kept != nil:
		room = kept.carve(size)
	default:
		room = make([]byte, 0, size)
	}
	in.Splice(room, c.newUUID())
}

// ingestBatch makes cmd store the messages of a batch: all or none (3.4). The envelope has nothing
// that the broker needs.
func (c *conn) ingestBatch(cmd *engine.Send, body []byte, buf *chunk, kept *stagingMemory) *amqp.Error {
	envelope, err := amqp.ScanMessage(body, c.decoder.Limits)
	if err != nil {
		return message.DecodeError(err)
	}
	if envelope.BodyKind != amqp.BodyData && envelope.BodyKind != amqp.BodyNone {
		return message.ArgumentError("A batch must consist of data sections.")
	}
	cmd.Messages = make([]engine.Message, 0, envelope.BodyCount)
	seen := newFilterInput(cmd, envelope.BodyCount)
	for one := range amqp.DataSections(envelope.Body.Of(body)) {
		in, e := c.inspect(one)
		if e != nil {
			seen.drop()
			return e
		}
		if withoutKey(cmd, &in) {
			seen.drop()
			return refusal(amqp.CondNotAllowed, withoutKeyText)
		}
		c.complete(&in, buf, kept, seen)
		cmd.Messages = append(cmd.Messages, in.Message)
	}
	cmd.Buffer = seen.with(buf)
	return nil
}

const withoutKeyText = "Message to a partitioned entity with duplicate detection enabled must have either PartitionKey or MessageId"

// withoutKey reports whether a message of a batch has no key in an entity where a message-id would
// serve as one (S4-35): if the broker gave each message an id here, each would go to another
// partition.
func withoutKey(cmd *engine.Send, in *message.Sent) bool {
	e, m := cmd.Entity, &in.Message
	return len(e.Hosts) > 1 && e.Properties.RequiresDuplicateDetection && cmd.Destination == nil && !in.HasID() && !m.HasSession && len(m.PartitionKey) == 0
}

// newUUID returns a random UUID of version 4, for ids that are unique and not secret.
func newUUID() (u [16]byte) {
	binary.LittleEndian.PutUint64(u[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(u[8:], rand.Uint64())
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}
