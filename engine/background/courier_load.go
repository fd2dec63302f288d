package background

import (
	"errors"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxBetween is the largest gap between two bodies, in bytes, that is read along with them. A
	// body after a larger gap is read separately.
	maxBetween = 8 << 10
	// maxFree bounds the batches that are kept to reuse their memory.
	maxFree = 16
	// batchItems is about how many bytes a batch takes besides bodies.
	batchItems = 64 << 10
)

// load reads the next messages of a stream. An error means that they may be read later. It returns
// no batch if none of the messages it tried can ever be read: their transfers have failed.
func (c *Courier) load(l *stream, e *engine.Entity) (*batch, error) {
	f := c.newBatch(l, e)
	n := f.choose(l.queue.All())
	if !c.pay(f) {
		f.bytes = 0
		c.recycle(f)
		return nil, noMemory
	}
	c.readTogether(f, l.queue.All()[:n])
	for n > 0 {
		n--
		t := l.queue.Front()
		err := c.loadOne(f, t, e.Kind == event.Topic)
		if err == nil {
			f.transfers = append(f.transfers, *t)
		} else if refusal := c.loadRefusal(l, t, err); refusal != nil {
			c.refuse(l, t, refusal)
		} else if len(f.transfers) == 0 {
			c.recycle(f)
			return nil, err
		} else {
			return f, nil
		}
		l.queue.Pop()
	}
	if len(f.transfers) == 0 {
		c.recycle(f)
		return nil, nil
	}
	return f, nil
}

// pay takes memory for everything that a batch will read: its bodies, and the gaps between them. If
// no batch is in flight, it succeeds even without memory.
func (c *Courier) pay(f *batch) bool {
	need := f.bytes + min(4*f.bytes, maxBatchBytes+maxBetween) + batchItems
	more := need - f.paid
	if more <= 0 {
		return true
	}
	if !c.Memory.Take(more) {
		if len(c.inFlight) > 0 {
			return false
		}
		c.spare()
		c.Memory.Owe(more)
	}
	f.paid = need
	return true
}

// spare frees the memory of the batches that are not in flight.
func (c *Courier) spare() {
	for _, f := range c.free {
		c.Memory.Give(f.paid)
	}
	clear(c.free)
	c.free = c.free[:0]
}

// loadRefusal returns the refusal of a message that can never be read; nil: it may be read later. A
// message whose bytes have changed goes to the sub-queue for refused messages: there it can be
// seen, and the others continue. A message that the disk fails to read now may still be intact.
func (c *Courier) loadRefusal(l *stream, t *engine.Transfer, err error) *engine.Error {
	var refusal *engine.Error
	if errors.As(err, &refusal) {
		if refusal.Code == engine.Busy {
			return nil
		}
		return refusal
	}
	c.Damaged(fmt.Errorf("message %d of %v, in transfer: %w", t.Sequence, l.source, err))
	if errors.Is(err, log.ErrChecksum) || errors.Is(err, event.ErrErased) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errStored) {
		return engine.Refuse(engine.Unreadable, "The stored bytes of the message cannot be read.")
	}
	return nil
}

// errStored means that stored bytes are unchanged but are no valid message.
var errStored = errors.New("engine: not a message")

// refuse ends a transfer that is refused before it leaves.
func (c *Courier) refuse(l *stream, t *engine.Transfer, refusal *engine.Error) {
	over := c.newReport(l)
	c.endTransfer(over, t, refusal, 0)
	c.report(over)
}

// newBatch returns an empty batch for a stream.
func (c *Courier) newBatch(l *stream, e *engine.Entity) *batch {
	f := new(batch)
	if n := len(c.free); n > 0 {
		f, c.free = c.free[n-1], c.free[:n-1]
	}
	f.stream = l
	f.import_ = engine.Import{Entity: e, Source: l.source, Floor: l.head().floor, Items: f.import_.Items[:0], Waits: l.trigger != event.TriggerForward}
	return f
}

// recycle makes the memory of a batch available again.
func (c *Courier) recycle(f *batch) {
	clear(f.transfers)
	clear(f.import_.Items)
	f.stream, f.transfers, f.import_.Items, f.bytes = nil, f.transfers[:0], f.import_.Items[:0], 0
	f.window, f.bodies = f.window[:0], f.bodies[:0]
	if len(c.free) < maxFree && cap(f.bodies)+cap(f.window) <= 3*maxBatchBytes && !c.Memory.Exceeds(0) {
		c.free = append(c.free, f)
		return
	}
	f.window, f.bodies = nil, nil // the destination's last request may keep the batch
	c.Memory.Give(f.paid)
	f.paid = 0
}

// readTogether reads the part of the log that has the bodies of several messages, as far as they
// are close together. If a body cannot be read, loadOne finds that out.
func (c *Courier) readTogether(f *batch, messages []engine.Transfer) {
	f.window = f.window[:0]
	if len(messages) < 2 || messages[0].Body.Size == 0 {
		return
	}
	first := messages[0].Body
	end := first.Position + event.Position(first.Size)
	for i := range messages[1:] {
		b := &messages[1+i].Body
		to := b.Position + event.Position(b.Size)
		if b.Position < end || b.Position-end > maxBetween || to-first.Position > maxBatchBytes+maxBetween {
			break
		}
		end = to
	}
	span := int(end - first.Position)
	if span == int(first.Size) {
		return
	}
	if cap(f.window) < span {
		f.window = make([]byte, 0, max(span, min(4*span, maxBatchBytes+maxBetween)))
	}
	if n, err := c.Read(first, f.window[:span]); err == nil {
		f.window, f.at = f.window[:n], first.Position
	}
}

// choose decides how many of some messages go into the batch.
func (f *batch) choose(queue []engine.Transfer) (n int) {
	for n < len(queue) && n < maxBatch {
		size := queue[n].Bytes()
		if n > 0 && f.bytes+size > maxBatchBytes {
			break
		}
		f.bytes += size
		n++
	}
	return n
}

// loadOne reads one message.
func (c *Courier) loadOne(f *batch, t *engine.Transfer, topic bool) error {
	body, err := c.blob(f, &t.Body)
	if err != nil {
		return err
	}
	var changes [][]byte
	for i := range t.Changes {
		b, err := c.blob(f, &t.Changes[i])
		if err != nil {
			return err
		}
		changes = append(changes, b)
	}
	var see *filter.Message
	if topic {
		see = f.nextView()
	}
	m, merged, err := c.Reread(body, changes, t.TimeToLive, see)
	if refusal := (*engine.Error)(nil); err != nil && !errors.As(err, &refusal) {
		return fmt.Errorf("%w: %w", errStored, err)
	} else if err != nil {
		return refusal
	}
	if topic {
		m.Properties = see
	}
	item := engine.Arriving{Message: m, Number: t.Number, Sequence: t.Sequence, Hops: t.Hops + 1, First: t.First, DeadLetterSource: t.DeadLetterSource, Changes: merged}
	f.import_.Items = append(f.import_.Items, item)
	return nil
}

// nextView returns the memory for what filters see of the next message.
func (f *batch) nextView() *filter.Message {
	n := len(f.import_.Items)
	if cap(f.filterViews) == 0 {
		f.filterViews = make([]filter.Message, maxBatch)
	}
	return &f.filterViews[n]
}

// blob reads a blob into the memory of the batch.
func (c *Courier) blob(f *batch, b *event.Blob) ([]byte, error) {
	size := int(b.Size)
	if size == 0 {
		return nil, nil
	}
	if b.Position >= f.at && uint64(b.Position-f.at)+uint64(size) <= uint64(len(f.window)) {
		from := int(b.Position - f.at)
		if data := f.window[from : from+size : from+size]; b.Matches(data) {
			return data, nil
		}
	}
	from := len(f.bodies)
	if from+size > cap(f.bodies) { // bodies read so far keep their old memory
		f.bodies, from = make([]byte, 0, max(size, min(4*f.bytes, maxBatchBytes))), 0
	}
	f.bodies = f.bodies[:from+size]
	n, err := c.Read(*b, f.bodies[from:])
	if err == nil && n < size {
		err = fmt.Errorf("engine: blob at position %d: %d bytes missing: %w", b.Position, size-n, io.ErrUnexpectedEOF)
	}
	return f.bodies[from:len(f.bodies):len(f.bodies)], err
}
