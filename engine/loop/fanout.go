package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// publisher prepares due messages: rules have to see a scheduled message of a topic, so its bytes
// are read back.
type publisher struct {
	part   *engine.Partition
	stored interface {
		ReadBlob(b event.Blob, dst []byte) ([]byte, error) // that of [log.Reader]
	}
	frames *frames
	// properties reads what filters see of an encoded message, and its bytes outside the body
	properties func(message []byte, into *filter.Message) (header int, err error)
	reread     func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error)
	cached     cachedMessage // owned by the loop; the other fields are set once in New
}

// tick returns the command that ends what is due. If that is a scheduled message of a topic, its
// bytes are read back for the rules.
func (p *publisher) tick(now event.Time) (*engine.Tick, error) {
	tick := &engine.Tick{}
	s, ok := p.part.Index().DueScheduled(now)
	if !ok {
		return tick, nil
	}
	if e, gone := p.part.Entity(s.Slice); gone != nil || e.Kind != event.Topic {
		return tick, nil
	}
	if p.cached.see == nil || p.cached.of != s {
		see, header, err := p.readBack(s)
		if errors.Is(err, log.ErrDescriptors) {
			err = errUnwritten // it can be read later, like a message that is not written yet
		}
		if err != nil {
			return nil, err
		}
		p.cached = cachedMessage{see, header, s}
	}
	tick.Properties, tick.Header = p.cached.see, p.cached.header
	return tick, nil
}

// cachedMessage is the message of a topic to publish next, as it was read back.
type cachedMessage struct {
	see    *filter.Message // what filters see; nil: nothing was read
	header int             // bytes outside its body
	of     index.ScheduledMessage
}

// ErrInternal reports that an invariant does not hold, so the state may be wrong (reliability.md
// F21).
var ErrInternal = errors.New("engine: internal fault")

// errUnwritten reports that a message cannot be read yet: it is in a frame that is not in the log,
// or no file can be opened now.
var errUnwritten = errors.New("not readable yet")

// readBack reads a scheduled message. If it cannot be read, the partition stops, because the
// receiving subscriptions are unknown.
func (p *publisher) readBack(s index.ScheduledMessage) (see *filter.Message, header int, err error) {
	m, _ := p.part.Index().Message(s.Slice, s.Sequence)
	if event.LSN(m.Body.Position) >= p.frames.writer.Written() {
		return nil, 0, errUnwritten
	}
	if m.Body.Size == 0 {
		return new(filter.Message), 0, nil // it has no stored bytes
	}
	body, err := p.stored.ReadBlob(m.Body, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("message %d of %v, scheduled: %w", s.Sequence, s.Slice, LiveBodyError(err))
	}
	see = new(filter.Message)
	if p.properties == nil {
		return see, 0, nil
	}
	if len(m.Changes) > 0 && p.reread != nil {
		header, err = p.readMoved(&m, body, see)
	} else {
		header, err = p.properties(body, see)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("message %d of %v, scheduled: %w", s.Sequence, s.Slice, err)
	}
	return see, header, nil
}

// readMoved returns what filters see of a message that came with changes from another entity, and
// its bytes outside the body, including the changes.
func (p *publisher) readMoved(m *index.Message, body []byte, see *filter.Message) (header int, err error) {
	changes := make([][]byte, len(m.Changes))
	for i, b := range m.Changes {
		if changes[i], err = p.stored.ReadBlob(b, nil); err != nil {
			return 0, LiveBodyError(err)
		}
	}
	moved, _, err := p.reread(body, changes, 0, see)
	var other *engine.Error
	if errors.As(err, &other) { // about keys that differ: the message was accepted all the same
		err = nil
	}
	return moved.Header, err
}

// LiveBodyError turns the error of reading the body of a live message into an internal fault if the
// body was erased, because history erases no such body.
func LiveBodyError(err error) error {
	if errors.Is(err, event.ErrErased) {
		return fmt.Errorf("%w: a body that is still needed: %w", ErrInternal, err)
	}
	return err
}
