package servicebus

import (
	"reflect"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// filterInput is the data for filters of the messages of one send to a topic. It is the send's
// buffer as well: the engine releases both at once, and the memory is reused.
type filterInput struct {
	chunk    *chunk // holds the bodies; nil: they have their own memory
	messages []filter.Message
	user     int // properties in all messages
}

var publishedPool = sync.Pool{New: func() any { return new(filterInput) }}

// newFilterInput returns space for the filter data of count messages of a send. It returns nil if
// the target has no filters, or hands the messages on: then filters read them after their arrival.
func newFilterInput(cmd *engine.Send, count int) *filterInput {
	if cmd.Entity.Kind != event.Topic || cmd.Destination != nil {
		return nil
	}
	p := publishedPool.Get().(*filterInput)
	if cap(p.messages) < count {
		p.messages = make([]filter.Message, 0, count)
	}
	return p
}

// with returns the buffer of a send whose bodies are in buf, which may be nil.
func (p *filterInput) with(buf *chunk) engine.Buffer {
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

// drop frees the space if nothing is sent.
func (p *filterInput) drop() {
	if p != nil {
		p.Release()
	}
}

// read adds an inspected message.
func (p *filterInput) read(in *message.Sent) {
	// never beyond the space: the engine keeps the addresses of messages
	p.messages = p.messages[:len(p.messages)+1]
	m := &p.messages[len(p.messages)-1]
	in.Properties(m)
	p.user += len(m.User)
}

var (
	messageSize  = int(reflect.TypeFor[filter.Message]().Size())
	propertySize = int(reflect.TypeFor[event.Property]().Size())
)

// size returns the bytes of memory in use: they may be many times those of the messages themselves
// (reliability.md S15).
func (p *filterInput) size() int {
	if p == nil {
		return 0
	}
	return len(p.messages)*messageSize + p.user*propertySize
}

// Limits above which memory is not pooled for the next send.
const (
	pooledMessages   = 64
	pooledProperties = 128 // of one message
)

// Release implements engine.Buffer.
func (p *filterInput) Release() {
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
