package host

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What a loop does for topics: it is the one that can read.

// tick makes the command that ends what is due. When that is a scheduled message of a topic, rules will look at it: its bytes
// are read back.
func (l *Loop) tick(now event.Time) (*engine.Tick, error) {
	tick := &engine.Tick{NewID: l.newID}
	s, ok := l.part.Index().DueScheduled(now)
	if !ok {
		return tick, nil
	}
	if e, gone := l.part.Entity(s.Slice); gone != nil || e.Kind != event.Topic {
		return tick, nil
	}
	if l.seen.see == nil || l.seen.of != s {
		see, header, err := l.readBack(s)
		if errors.Is(err, log.ErrDescriptors) {
			err = errUnwritten // it can be read later, as if it were
		}
		if err != nil {
			return nil, err
		}
		l.seen = seen{see, header, s}
	}
	tick.Properties, tick.Header = l.seen.see, l.seen.header
	return tick, nil
}

// seen is what was read back of the message of a topic that is to be published next.
type seen struct {
	see    *filter.Message // what filters see; nil: nothing was read
	header int             // bytes beside its body
	of     index.ScheduledMessage
}

// errUnwritten says that a message cannot be read yet: it stands in a frame that is not in the log, or no file can be opened now.
var errUnwritten = errors.New("not readable yet")

// readBack reads a scheduled message. One that cannot be read stops the partition: nobody can say who is to have it.
func (l *Loop) readBack(s index.ScheduledMessage) (see *filter.Message, header int, err error) {
	m, _ := l.part.Index().Message(s.Slice, s.Sequence)
	if event.LSN(m.Body.Position) >= l.writer.Written() {
		return nil, 0, errUnwritten
	}
	if m.Body.Size == 0 {
		return new(filter.Message), 0, nil // it stands nowhere
	}
	body, err := l.plog.ReadBlob(m.Body, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("message %d of %v, scheduled: %w", s.Sequence, s.Slice, err)
	}
	see = new(filter.Message)
	if l.properties == nil {
		return see, 0, nil
	}
	if header, err = l.properties(body, see); err != nil {
		return nil, 0, fmt.Errorf("message %d of %v, scheduled: %w", s.Sequence, s.Slice, err)
	}
	return see, header, nil
}

// markCopies notes that subscriptions have something to deliver.
func (l *Loop) markCopies(partition uint8, copies []event.Copy) {
	for i := range copies {
		l.mark(event.Slice{Entity: copies[i].Subscription, Partition: partition}, copies[i].Sequence)
	}
}
