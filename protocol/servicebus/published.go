package servicebus

import (
	"reflect"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// published is what filters see of the messages of one send to a topic. It is the send's buffer
// too: the engine lets go of both at once, and the memory is used again.
type published struct {
	chunk    *chunk // that holds the bodies; nil: they have memory of their own
	messages []filter.Message
	user     int // properties in all messages
}

var publishedPool = sync.Pool{New: func() any { return new(published) }}

// seenBy returns room for what filters see of count messages of a send. It is nil where the target
// has no filters, or hands the messages on: filters then see them once they have arrived.
func seenBy(cmd *engine.Send, count int) *published {
	if cmd.Entity.Kind != event.Topic || cmd.Destination != nil {
		return nil
	}
	p := publishedPool.Get().(*published)
	if cap(p.messages) < count {
		p.messages = make([]filter.Message, 0, count)
	}
	return p
}

// with is the buffer of a send of which buf, which may be nil, holds the bodies.
func (p *published) with(buf *chunk) engine.Buffer {
	if buf != nil {
		buf.retain()
	}
	switch {
	case p != nil:
		p.chunk = buf
		return p
	case buf != nil:
		return buf
	}
	return nil
}

// drop gives the room back when nothing is sent.
func (p *published) drop() {
	if p != nil {
		p.Release()
	}
}

// read adds a message that was inspected.
func (p *published) read(in *message.Sent) {
	// never beyond the room: the engine keeps the addresses of messages
	p.messages = p.messages[:len(p.messages)+1]
	m := &p.messages[len(p.messages)-1]
	in.Properties(m)
	p.user += len(m.User)
}

var (
	messageSize  = int(reflect.TypeFor[filter.Message]().Size())
	propertySize = int(reflect.TypeFor[event.Property]().Size())
)

// size is the memory in use, in bytes: it may be many times that of the messages themselves
// (reliability.md S15).
func (p *published) size() int {
	if p == nil {
		return 0
	}
	return len(p.messages)*messageSize + p.user*propertySize
}

// What is larger does not wait in the pool for the next send.
const (
	pooledMessages   = 64
	pooledProperties = 128 // of one message
)

// Release implements engine.Buffer.
func (p *published) Release() {
	if p.chunk != nil {
		p.chunk.Release()
	}
	if cap(p.messages) > pooledMessages {
		return
	}
	for i := range p.messages {
		if m := &p.messages[i]; cap(m.User) > pooledProperties {
			*m = filter.Message{}
		} else {
			m.Reset()
		}
	}
	p.chunk, p.messages, p.user = nil, p.messages[:0], 0
	publishedPool.Put(p)
}
