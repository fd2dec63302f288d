package background

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Courier moves messages that are in transfer in one log to their destination entities, which may
// be in other logs, and reports the results to its log (docs/decisions/0035). Everything it knows
// is in the logs: at a start, a new courier is told which messages are in transfer.
//
// A courier never waits for a loop, and no loop waits for a courier. The requests between them are
// bounded by how many messages of a slice may be in transfer at a time.
//
// Run drives it in a goroutine. A simulation calls Turn directly.
type Courier struct {
	// set once in NewCourier
	CourierOptions
	mail courierMail

	// owned by Turn
	streams     map[streamKey]*stream
	ready       fifo.Queue[*stream] // streams that have something to do
	resting     []*stream           // streams that wait until a time
	free        []*batch            // batches whose memory is reused
	inFlight    map[uint64]*batch
	batches     uint64 // number of the last batch
	bytes       int    // size of the bodies in flight
	outOfMemory bool   // there was no memory for another batch
	letters     []engine.Reply
}

// CourierOptions are what a courier needs from its surroundings.
type CourierOptions struct {
	Home engine.PartitionID // partition whose transfers it carries
	// Read is [log.Reader.ReadInto] of that partition's log. It refuses with the code Busy if the
	// body can be read later.
	Read func(b event.Blob, dst []byte) (int, error)
	// Reread turns a stored message into the message that its destination is asked to store; see
	// Options of package host.
	Reread func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error)
	// Entity returns the entity with an id; nil: it was deleted.
	Entity func(event.EntityID) *engine.Entity
	// Offer passes a request to the loop of a partition without waiting. It returns false if no
	// loop accepts it now.
	Offer func(engine.PartitionID, engine.Request) bool
	// Damaged reports stored messages that cannot be read back.
	Damaged func(error)
	Logger  *slog.Logger
	// FailuresTo is the sub-queue for messages that a destination refuses: [event.DeadLetter] or
	// [event.TransferDeadLetter].
	FailuresTo event.SubQueue
	// Memory is the account from which memory for messages is taken before they are read; nil:
	// unlimited.
	Memory log.Memory
}

const (
	// maxBatch bounds the messages of a batch, maxBatchBytes the bytes at which a batch is full
	// with fewer messages.
	maxBatch      = 256
	maxBatchBytes = 256 << 10
	// maxInFlight bounds the bodies, in bytes, that a courier has read and not delivered. One batch
	// may always be in flight, even without memory.
	maxInFlight = 16 << 20
	// How long a stream waits when its destination cannot accept anything: it doubles each time.
	firstRest, longestRest = 100 * time.Millisecond, 5 * time.Second
)

// streamKey names a stream: the messages that go from one slice to one entity for one reason. They
// stay in order and wait together.
type streamKey struct {
	source      event.Slice
	trigger     event.Trigger
	destination event.EntityID
}

// stream holds the messages in transfer from one slice to one entity, and sends one batch at a
// time. If the entity has several partitions, the stream holds the messages that are not sorted
// yet, and each partition has its own stream after it (courier_sort.go).
type stream struct {
	streamKey
	of        *stream   // stream that sorts for this one; nil: none
	parts     []*stream // streams that it sorts for, by partition; nil where no message came
	partition uint8     // of the destination
	queue     fifo.Queue[engine.Transfer]
	floor     event.TransferNumber // all transfers with smaller numbers are settled, durably
	batch     *batch               // in flight; nil: none
	queued    bool                 // is among the ready streams
	// how long it waits the next time its destination cannot accept anything
	rest  time.Duration
	until event.Time // it waits until then; 0: it does not wait
	gone  bool       // the source was deleted
}

// batch is a number of messages on their way to their destination.
type batch struct {
	stream      *stream
	import_     engine.Import
	transfers   []engine.Transfer // the transfers of the items
	window      []byte            // a part of the log with several bodies
	at          event.Position    // where the window begins
	bodies      []byte            // memory of bodies that were read one by one
	filterViews []filter.Message
	bytes       int
	paid        int // bytes taken from the memory account
}

// NewCourier returns a courier that knows of no transfers yet.
func NewCourier(opts CourierOptions) *Courier {
	if opts.FailuresTo != event.TransferDeadLetter {
		opts.FailuresTo = event.DeadLetter
	}
	if opts.Memory == nil {
		opts.Memory = log.Unbounded{}
	}
	return &Courier{CourierOptions: opts, mail: courierMail{wake: make(chan struct{}, 1)}, streams: map[streamKey]*stream{}, inFlight: map[uint64]*batch{}}
}

// Post implements [engine.Sink].
func (c *Courier) Post(rs []engine.Reply) { c.mail.put(rs) }

// Turn reads its mail and sends the next batches. It returns when it wants the next turn if no mail
// arrives before; 0: never.
func (c *Courier) Turn(now event.Time) event.Time {
	c.letters = c.mail.take(c.letters[:0])
	for i := range c.letters {
		c.takeLetter(now, &c.letters[i])
	}
	clear(c.letters)
	c.wakeRested(now)
	c.outOfMemory = false
	for n := c.ready.Len(); n > 0 && c.bytes < maxInFlight && !c.outOfMemory; n-- {
		l := c.ready.Pop()
		l.queued = false
		c.depart(now, l)
	}
	var next event.Time
	switch {
	case c.outOfMemory: // a batch that arrives wakes it as well
		next = now.Add(firstRest)
	case c.ready.Len() > 0 && c.bytes < maxInFlight:
		return now
	}
	for _, l := range c.resting {
		if next == 0 || l.until < next {
			next = l.until
		}
	}
	return next
}

// takeLetter handles one letter.
func (c *Courier) takeLetter(now event.Time, letter *engine.Reply) {
	switch told := letter.Answer.(type) {
	case *loop.TransferBatch:
		c.takeTransfers(told)
		return
	case *loop.SliceGone:
		c.forget(told.Source)
		return
	case *retryRequest:
		c.endRests()
		return
	}
	f := c.inFlight[letter.Tag]
	if f == nil {
		// the log stopped before these transfers were durable: the next start says which of them
		// are
		return
	}
	delete(c.inFlight, letter.Tag)
	c.bytes -= f.bytes
	f.stream.batch = nil
	c.takeAnswer(now, f, letter)
	c.recycle(f)
}

// takeTransfers takes over transfers of a slice.
func (c *Courier) takeTransfers(told *loop.TransferBatch) {
	for _, fl := range told.Floors {
		for _, trigger := range [...]event.Trigger{event.TriggerForward, event.TriggerDeadLetter, event.TriggerVia} {
			if l := c.streams[streamKey{told.Source, trigger, fl.Destination}]; l != nil {
				l.floor = max(l.floor, fl.Number)
			}
		}
	}
	for i := range told.Transfers {
		t := &told.Transfers[i]
		l := c.stream(streamKey{told.Source, t.Trigger, t.Destination})
		for _, fl := range told.Floors {
			if fl.Destination == t.Destination {
				l.floor = max(l.floor, fl.Number)
			}
		}
		l.queue.Push(*t)
		c.wake(l)
	}
}

func (c *Courier) stream(k streamKey) *stream {
	l := c.streams[k]
	if l == nil {
		l = &stream{streamKey: k}
		c.streams[k] = l
	}
	return l
}

// wake makes a stream ready, if it can send.
func (c *Courier) wake(l *stream) {
	if !l.queued && l.batch == nil && l.until == 0 && l.queue.Len() > 0 && !l.gone {
		l.queued = true
		c.ready.Push(l)
	}
}

// wakeRested wakes the streams whose wait has ended.
func (c *Courier) wakeRested(now event.Time) {
	c.resting = slices.DeleteFunc(c.resting, func(l *stream) bool {
		if l.until > now && !l.gone {
			return false
		}
		l.until = 0
		c.wake(l)
		return true
	})
}

// wait makes a stream wait before it tries again, longer each time.
func (c *Courier) wait(now event.Time, l *stream) {
	if l.rest = min(2*l.rest, longestRest); l.rest == 0 {
		l.rest = firstRest
	}
	l.until = now.Add(l.rest)
	c.resting = append(c.resting, l)
}

// retryRequest tells a courier to stop waiting for destinations.
type retryRequest struct{ engine.Internal }

// RetryNow makes all waiting streams try again at once, because a destination may be back.
func (c *Courier) RetryNow() { c.Post([]engine.Reply{{Answer: &retryRequest{}}}) }

// endRests ends the waits of all streams, and resets their length.
func (c *Courier) endRests() {
	for _, l := range c.resting {
		l.until, l.rest = 1, 0
	}
}

// forget drops everything about a deleted slice. Messages in flight may arrive or not; both are
// right.
func (c *Courier) forget(source event.Slice) {
	for k, l := range c.streams {
		if k.source == source {
			l.end()
			delete(c.streams, k)
		}
	}
}

// tidy drops a stream that has nothing to do.
func (c *Courier) tidy(l *stream) {
	if l = l.head(); l.idle() && c.streams[l.streamKey] == l {
		delete(c.streams, l.streamKey)
	}
}

// depart sends the next messages of a stream.
func (c *Courier) depart(now event.Time, l *stream) {
	defer c.tidy(l)
	e := c.Entity(l.destination)
	if e == nil {
		c.refuseAll(now, l)
		return
	}
	f, err := c.load(l, e)
	switch {
	case errors.Is(err, noMemory):
		c.outOfMemory = true
		c.wake(l)
		return
	case err != nil: // the messages can be read later
		c.wait(now, l)
		return
	case f == nil:
		c.wake(l)
		return
	}
	if len(e.Hosts) > 1 && l.of == nil {
		if l = c.sort(l, f); l == nil {
			return
		}
	}
	c.offerBatch(now, l, f)
}

// offerBatch sends a batch of a stream.
func (c *Courier) offerBatch(now event.Time, l *stream, f *batch) {
	to := engine.Target{Entity: f.import_.Entity}
	f.import_.Slice = to.Slice(l.partition)
	c.batches++
	if !c.Offer(to.Host(l.partition), engine.Request{Command: &f.import_, Sink: c, Tag: c.batches}) {
		c.putBack(l, f, 0)
		c.recycle(f)
		c.wait(now, l)
		return
	}
	c.inFlight[c.batches], l.batch = f, f
	c.bytes += f.bytes
}

// putBack returns the messages of a batch, from an index on, to the front of their stream.
func (c *Courier) putBack(l *stream, f *batch, from int) {
	if from == len(f.transfers) || l.gone {
		return
	}
	var q fifo.Queue[engine.Transfer]
	for _, t := range f.transfers[from:] {
		q.Push(t)
	}
	for _, t := range l.queue.All() {
		q.Push(t)
	}
	l.queue = q
}

// takeAnswer handles the answer of a destination.
func (c *Courier) takeAnswer(now event.Time, f *batch, answer *engine.Reply) {
	l := f.stream
	defer c.tidy(l)
	became, _ := answer.Answer.(engine.Arrivals)
	if answer.Err != nil {
		became = nil
		var refusal *engine.Error
		if errors.As(answer.Err, &refusal) && refusal.Code != engine.Busy { // it refuses all
			became = slices.Repeat(engine.Arrivals{refusal}, len(f.transfers))
		}
	}
	over, waits, n := c.newReport(l), answer.Err != nil && became == nil, 0
	for ; n < len(became) && !waits; n++ {
		if waits = !c.endTransfer(over, &f.transfers[n], became[n], f.import_.Items[n].Message.Header); waits {
			break
		}
	}
	c.putBack(l, f, n)
	c.report(over)
	if n > 0 {
		l.rest = 0
	}
	if waits && !l.gone {
		c.wait(now, l)
		return
	}
	c.wake(l)
}

// refuseAll ends the transfers of a stream whose destination was deleted.
func (c *Courier) refuseAll(now event.Time, l *stream) {
	refusal, over := engine.Refuse(engine.NotFound, "The messaging entity with id %d could not be found.", l.destination), c.newReport(l)
	if source := c.Entity(l.source.Entity); source != nil && l.trigger != event.TriggerVia {
		path := source.Properties.ForwardTo
		if l.trigger == event.TriggerDeadLetter {
			path = source.Properties.ForwardDeadLetteredMessagesTo
		}
		refusal = engine.NoEntity(engine.ForwardPath(path))
	}
	for l.queue.Len() > 0 {
		t := l.queue.Pop()
		c.endTransfer(over, &t, refusal, 0)
	}
	c.report(over)
}

func (c *Courier) newReport(l *stream) *loop.TransferResults {
	return &loop.TransferResults{Source: l.source, Trigger: l.trigger, Destination: l.destination}
}

// endTransfer adds the result of one transfer to a report. It returns false if the result is still
// open: the message waits.
func (c *Courier) endTransfer(over *loop.TransferResults, t *engine.Transfer, refusal *engine.Error, header int) bool {
	if refusal == nil {
		over.Arrived = append(over.Arrived, t.Number)
		over.Bytes += t.Bytes()
		return true
	}
	fail := engine.FailTransfer{Slice: over.Source, Number: t.Number, SubQueue: c.FailuresTo, Refusal: *refusal, Header: header}
	switch {
	case refusal.Code == engine.Busy:
		return false
	case t.Trigger == event.TriggerForward:
	case refusal.Code == engine.EntityFull:
		return false
	case t.Trigger == event.TriggerVia:
		fail.SubQueue = event.TransferDeadLetter
	case refusal.Code == engine.Disabled:
		return false
	case refusal.Code == engine.NotFound: // it waits for an entity of that name
		fail.SubQueue, fail.Back = event.DeadLetter, true
	}
	over.Failed = append(over.Failed, fail)
	over.Bytes += t.Bytes()
	return true
}

// report tells the log which transfers have ended.
func (c *Courier) report(over *loop.TransferResults) {
	if len(over.Arrived)+len(over.Failed) > 0 {
		// a log that has stopped finds them in transfer when it starts
		c.Offer(c.Home, engine.Request{Command: over})
	}
}

// courierMail holds the letters that a courier has not read.
type courierMail struct {
	wake chan struct{} // one slot

	mu      sync.Mutex // guards letters
	letters []engine.Reply
}

func (m *courierMail) put(rs []engine.Reply) {
	m.mu.Lock()
	m.letters = append(m.letters, rs...)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns the letters, and keeps an empty slice to fill next.
func (m *courierMail) take(empty []engine.Reply) []engine.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	letters := m.letters
	m.letters = empty
	return letters
}

// Counts returns the number of streams, of batches in flight, and of bytes in these.
func (c *Courier) Counts() (streams, batches, bytes int) {
	return len(c.streams), len(c.inFlight), c.bytes
}

// Close frees the courier's memory. It takes no turns after that.
func (c *Courier) Close() {
	for _, f := range c.inFlight {
		c.Memory.Give(f.paid)
	}
	c.spare()
	c.inFlight = nil
}

// Run takes turns until stop is closed.
func (c *Courier) Run(now func() event.Time, stop <-chan struct{}) {
	defer c.Close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		at := now()
		switch next := c.Turn(at); {
		case next == 0:
			timer.Reset(time.Hour)
		default:
			timer.Reset(max(0, next.Sub(at)))
		}
		select {
		case <-c.mail.wake:
		case <-timer.C:
		case <-stop:
			return
		}
	}
}
