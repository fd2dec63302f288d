// Package history writes data directories with as much history as somebody wants to ask questions
// of: a day of a namespace, sealed, without a broker. What happens in it follows from the options
// alone.
package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Options say what is made.
type Options struct {
	Events     int // about that many, in all logs together
	Partitions int // logs; 0: 4
	Queues     int // 0: 16. The first, queue-00, has half of the messages
	// of 1,000 messages that many become dead letters, and stay; the rest is completed
	Dead int
	Lost int           // of 1,000 attempts that many end with their lock
	Span time.Duration // of broker time; 0: a day
	Body int           // bytes of each; 0: 100
	Raw  bool          // chapters are not sealed
	// Checkpoint is how many events of a log are between two checkpoints; 0: none is made.
	Checkpoint int
}

// Begins is when the history begins.
var Begins = event.TimeOf(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))

// reasons are why messages die.
var reasons = []struct{ reason, description string }{
	{"BadCurrency", "order %d is in EURO"}, {"NoSuchCustomer", "customer %d is not known"}, {"Timeout", "no answer of stock-%d"}, {"BadDate", "line %d"},
}

// Queue is the path of a queue, from 0.
func Queue(i int) string { return fmt.Sprintf("queue-%02d", i) }

// MessageID is the id of a message of a queue.
func MessageID(queue int, n event.SequenceNumber) string { return fmt.Sprintf("id-%02d-%d", queue, n) }

// Make makes a directory, which must not be there or be empty.
func Make(ctx context.Context, dir string, o Options) (err error) {
	if o.Partitions == 0 {
		o.Partitions = 4
	}
	if o.Queues == 0 {
		o.Queues = 16
	}
	if o.Span == 0 {
		o.Span = 24 * time.Hour
	}
	if o.Body == 0 {
		o.Body = 100
	}
	logOptions := log.Options{Partitions: o.Partitions, SealAfter: -1}
	if o.Raw {
		logOptions.SealAfter = 0
	}
	s, err := log.Open(ctx, dir, logOptions)
	if err != nil {
		return err
	}
	m := maker{Options: o, rng: rand.New(rand.NewPCG(uint64(o.Events), 18)), text: make([]byte, 1<<20+o.Body)}
	for i := range m.text { // compresses to about two thirds, as texts of orders do
		m.text[i] = "abcdefghijklmnopqrstuvwxyz 01234"[m.rng.IntN(32)]
	}
	if err := m.open(ctx, s); err != nil {
		return err
	}
	if err := m.run(ctx); err != nil {
		return err
	}
	if err := m.close(ctx); err != nil {
		return err
	}
	if err := s.Close(); err != nil || o.Raw {
		return err
	}
	return seal(ctx, dir, logOptions)
}

// seal seals what the newest chapters have: a run that begins ends them.
func seal(ctx context.Context, dir string, o log.Options) error {
	s, err := log.Open(ctx, dir, o)
	if err != nil {
		return err
	}
	for _, id := range s.Partitions() {
		p, err := s.Open(ctx, id)
		if err != nil {
			return err
		}
		w, err := p.Lead(ctx)
		if err != nil {
			return err
		}
		for more := true; more; {
			if more, err = p.(log.Sealer).Seal(ctx); err != nil {
				return err
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return s.Close()
}

// maker writes the logs of a namespace side by side.
type maker struct {
	Options
	rng  *rand.Rand
	logs []*written
	text []byte // from which bodies are cut
}

// written is a log that is being written.
type written struct {
	part   log.Partition
	w      log.Writer
	batch  *log.Batch
	state  *index.Index // nil: nobody needs it
	events int
	since  int // events since the newest checkpoint
	queues []*queue
	last   event.Time
}

// queue is a queue and who is at work on its messages.
type queue struct {
	number int
	event.Envelope
	last event.SequenceNumber
	open []attempt // locks, oldest first
}

// attempt is a message that somebody has received.
type attempt struct {
	number event.SequenceNumber
	token  event.LockToken
	count  uint32
	since  event.Time
}

const (
	lock      = 30 * time.Second
	workers   = 40 // messages that are locked at a time
	frame     = 64 // records
	maxFailed = 3
)

func (m *maker) open(ctx context.Context, s log.Store) error {
	for _, id := range s.Partitions() {
		p, err := s.Open(ctx, id)
		if err != nil {
			return err
		}
		w, err := p.Lead(ctx)
		if err != nil {
			return err
		}
		l := &written{part: p, w: w, batch: w.Batch()}
		if m.Checkpoint > 0 {
			l.state = index.New()
		}
		m.logs = append(m.logs, l)
		for k := range 3 {
			l.add(Begins, &event.OriginDefined{ID: event.OriginID(k + 1), Origin: event.Origin{RemoteAddress: fmt.Sprintf("10.0.4.%d:4711", 17+k), ContainerID: []string{"shop-api", "billing", "ops"}[k],
				Product: "azservicebus/1.11", Principal: "RootManageSharedAccessKey"}})
		}
	}
	for i := range m.Queues {
		q := &queue{number: i, Envelope: event.Envelope{Slice: event.Slice{Entity: event.EntityID(i + 1)}, Origin: 1}}
		host := i % len(m.logs)
		m.logs[host].queues = append(m.logs[host].queues, q)
		m.logs[0].add(Begins, &event.EntityCreated{Envelope: event.Envelope{Slice: q.Slice, Origin: 3}, EntityKind: event.Queue, Path: Queue(i), HashVersion: 1, Hosts: []byte{byte(host)},
			Properties: event.Properties{LockDuration: lock, MaxDeliveryCount: maxFailed, MaxSizeMegabytes: 5120, DefaultMessageTimeToLive: event.Forever, AutoDeleteOnIdle: event.Forever}})
	}
	return nil
}

// run has things happen until there are enough events.
func (m *maker) run(ctx context.Context) error {
	span := event.Time(m.Span.Milliseconds())
	for total := 0; total < m.Events; {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := Begins + 1 + event.Time(uint64(span)*uint64(total)/uint64(m.Events))
		q, l := m.queue()
		for range frame {
			total += m.step(l, q, at)
		}
		if err := l.flush(m.Checkpoint, false); err != nil {
			return err
		}
	}
	return nil
}

// queue is the one of which something happens next: half the time it is the first.
func (m *maker) queue() (*queue, *written) {
	i := 0
	if m.rng.IntN(2) == 0 {
		i = m.rng.IntN(m.Queues)
	}
	l := m.logs[i%len(m.logs)]
	return l.queues[i/len(m.logs)], l
}

// step has one thing happen and returns how many events that are.
func (m *maker) step(l *written, q *queue, at event.Time) int {
	if len(q.open) < workers {
		q.last++
		e := &event.MessageEnqueued{Envelope: q.Envelope, Sequence: q.last, MessageID: []byte(MessageID(q.number, q.last)), EnqueuedAt: at, Body: event.Blob{Data: m.text[m.rng.IntN(1<<20):][:m.Body]}}
		e.Details.BodySize, e.Details.Subject = uint32(m.Body), []byte("order")
		l.add(at, e)
		m.lock(l, q, attempt{number: q.last}, at)
		return 2
	}
	a := q.open[0]
	q.open = q.open[1:]
	own := event.Envelope{Slice: q.Slice, Origin: 2}
	switch k := m.rng.IntN(1000); {
	case k < m.Lost:
		a.count++
		events := []event.Event{&event.LockExpired{Envelope: event.Envelope{Slice: q.Slice}, Sequence: a.number, Token: a.token, DeliveryCount: a.count}}
		if a.count == maxFailed {
			events = append(events, &event.MessageDeadLettered{Envelope: event.Envelope{Slice: q.Slice}, Sequence: a.number, Cause: event.CauseMaxDelivery, Reason: "MaxDeliveryCountExceeded"})
			l.add(at, events...)
			return 2
		}
		l.add(at, events...)
		m.lock(l, q, a, at)
		return 2
	case k < m.Lost+m.Dead:
		r := reasons[m.rng.IntN(len(reasons))]
		l.add(at, &event.MessageDeadLettered{Envelope: own, Sequence: a.number, Token: a.token, Cause: event.CauseApplication, Reason: r.reason, Description: fmt.Sprintf(r.description, a.number)})
	default:
		l.add(at, &event.MessageCompleted{Envelope: own, Sequence: a.number, Token: a.token})
	}
	return 1
}

func (m *maker) lock(l *written, q *queue, a attempt, at event.Time) {
	binary.BigEndian.PutUint64(a.token[:], m.rng.Uint64())
	binary.BigEndian.PutUint64(a.token[8:], m.rng.Uint64())
	a.since = at
	l.add(at, &event.MessageLocked{Envelope: event.Envelope{Slice: q.Slice, Origin: 2}, Sequence: a.number, Token: a.token, LockedUntil: at + event.Time(lock.Milliseconds()), DeliveryCount: a.count})
	q.open = append(q.open, a)
}

// add writes a decision.
func (l *written) add(at event.Time, events ...event.Event) {
	l.batch.AppendRecord(at, events, log.Ordered)
	if l.state != nil {
		for _, ev := range events {
			l.state.Apply(at, ev)
		}
	}
	l.events, l.since, l.last = l.events+len(events), l.since+len(events), at
}

// flush ends a frame, and makes a checkpoint where one is due.
func (l *written) flush(every int, end bool) error {
	save := l.state != nil && every > 0 && l.since >= every
	if save || end {
		l.batch.AppendRecord(l.last, []event.Event{&event.ReasonGiven{Reason: "synced here"}}, log.Durable)
	}
	t := l.w.Append(l.batch)
	l.batch = l.w.Batch()
	if <-t.Done(); t.Err() != nil || !save {
		return t.Err()
	}
	l.since = 0
	state := l.state.Encode(nil)
	return l.part.SaveCheckpoint(t.End(), func(w io.Writer) error { _, err := w.Write(state); return err })
}

func (m *maker) close(context.Context) error {
	for _, l := range m.logs {
		if err := l.flush(0, true); err != nil {
			return err
		}
		if err := l.w.Close(); err != nil {
			return err
		}
	}
	return nil
}
