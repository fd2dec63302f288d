package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/tools/client"
)

// A Load describes the requests to a broker. Zero fields mean their defaults.
type Load struct {
	Size        int // bytes of a message's body; default 1,024, at least 32
	InFlight    int // unanswered sends in total; default 64
	Connections int // for each direction; default 1
	Links       int // per connection; default 1
	Credit      int // per receiving link; default 1,000
	Acceptors   int // unanswered settlements in total; default 64
	// settlements are not answered: each receiver settles and continues. Acceptors is then one per
	// link
	Unanswered bool
	Count      int64 // number of messages; 0: use Duration
	// of the measurement, longer if no message arrived in it; default 10 s, unused with Count
	Duration time.Duration
	Warmup   time.Duration // before the measurement; default a tenth of Duration, none with Count
	// sends per second, 0: unlimited. Latency is measured from the time when a send was due
	Rate      float64
	ServerPID int // process whose CPU time is reported; 0: none
	Progress  func(done int64)
	// Properties are the application properties of the messages, in turn; none: the messages have
	// no such section.
	Properties []map[string]any
}

func (l Load) withDefaults() Load {
	l.Size = max(cmp.Or(l.Size, 1024), stampSize)
	l.InFlight = cmp.Or(l.InFlight, 64)
	l.Connections = cmp.Or(l.Connections, 1)
	l.Links = cmp.Or(l.Links, 1)
	l.Credit = cmp.Or(l.Credit, 1000)
	l.Acceptors = cmp.Or(l.Acceptors, 64)
	if l.Unanswered {
		l.Acceptors = l.Connections * l.Links
	}
	l.Duration = cmp.Or(l.Duration, 10*time.Second)
	l.Warmup = cmp.Or(l.Warmup, l.Duration/10)
	if l.Count > 0 {
		l.Warmup = 0
	}
	return l
}

// A Result is the result of a load.
type Result struct {
	Mode      string   `json:"mode"` // send, receive or both
	Size      int      `json:"sizeBytes"`
	InFlight  int      `json:"inFlight,omitempty"`
	Messages  int64    `json:"messages"` // sent, or received if nothing was sent
	Seconds   float64  `json:"seconds"`
	PerSecond float64  `json:"perSecond"`
	Received  *float64 `json:"receivedPerSecond,omitempty"` // in mode both
	// in mode both: messages sent and not received at the end of the measurement
	Backlog *int64 `json:"backlog,omitempty"`
	// from the call until the broker accepted
	Send *Latency `json:"send,omitempty"`
	// from the call until the broker confirmed
	Complete *Latency `json:"complete,omitempty"`
	// from the call of send until the message reached the receiver
	EndToEnd  *Latency `json:"endToEnd,omitempty"`
	ServerCPU *float64 `json:"serverCPUSecondsPerMillion,omitempty"`
	ClientCPU float64  `json:"clientCPUSecondsPerMillion"`

	Accepted  int64 `json:"-"` // all accepted sends, including the warm-up
	Completed int64 `json:"-"` // all confirmed settlements
}

// A worker contains the counts of one goroutine.
type worker struct {
	done     atomic.Int64
	own      atomic.Int64 // received messages of this run
	latency  Histogram
	endToEnd Histogram
}

// A run is one load in progress.
type run struct {
	Load
	endpoint
	number     uint64        // identifies this run in its messages
	recording  atomic.Bool   // latencies are recorded
	stop       atomic.Bool   // no more sends
	sends      atomic.Int64  // tickets taken
	receives   atomic.Int64  // tickets taken
	starting   chan struct{} // closed when all links are open
	firstSend  sync.Once
	sendsBegan time.Time // by firstSend; used with Rate
	senders    []*worker
	receivers  []*worker
	conns      []*client.Client
	group      sync.WaitGroup // all workers
	sending    sync.WaitGroup // senders of group

	failure context.CancelCauseFunc
}

var (
	processStart = time.Now()
	runs         atomic.Uint64
)

// A message of a run begins with its stamp: magic, number of the run, and the send time in
// nanoseconds since the start of this process.
const (
	stampSize  = 32
	stampMagic = 0x6c6564676572_0001
)

func (r *run) stamp(body []byte, at time.Time) {
	binary.LittleEndian.PutUint64(body, stampMagic)
	binary.LittleEndian.PutUint64(body[8:], r.number)
	binary.LittleEndian.PutUint64(body[16:], uint64(at.Sub(processStart)))
}

// sentAt reads the stamp; ok is false for a message of another run.
func (r *run) sentAt(body []byte) (at time.Time, ok bool) {
	if len(body) < stampSize || binary.LittleEndian.Uint64(body) != stampMagic || binary.LittleEndian.Uint64(body[8:]) != r.number {
		return time.Time{}, false
	}
	return processStart.Add(time.Duration(binary.LittleEndian.Uint64(body[16:]))), true
}

// Send measures durable sends.
func Send(ctx context.Context, t Target, l Load) (Result, error) {
	return measure(ctx, t, l, true, false)
}

// Receive measures receiving and completing. Enough messages must be waiting. If they run out, a
// run with a Count waits for more; in a run with a Duration the waiting time counts.
func Receive(ctx context.Context, t Target, l Load) (Result, error) {
	return measure(ctx, t, l, false, true)
}

// Both measures sending and receiving at once. It ends when all sent messages have been received.
func Both(ctx context.Context, t Target, l Load) (Result, error) {
	return measure(ctx, t, l, true, true)
}

func measure(ctx context.Context, t Target, l Load, send, receive bool) (Result, error) {
	e, err := t.endpoint()
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Load: l.withDefaults(), endpoint: e, number: runs.Add(1) ^ uint64(processStart.UnixNano()), starting: make(chan struct{}), failure: cancel}
	defer r.close()
	receiveCtx, stopReceiving := context.WithCancel(ctx)
	defer stopReceiving()
	if receive {
		if err := r.openReceivers(ctx, receiveCtx, send); err != nil {
			return Result{}, err
		}
	}
	if send {
		if err := r.openSenders(ctx); err != nil {
			stopReceiving()
			return Result{}, err
		}
	}
	begin, end := r.watch(ctx, send, receive)
	r.stop.Store(true)
	r.sending.Wait()
	if receive {
		r.drain(ctx, send)
		stopReceiving()
	}
	r.group.Wait()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	return r.result(begin, end, send, receive), nil
}

// A runSnapshot is the state of a run at an instant.
type runSnapshot struct {
	at             time.Time
	sent, received int64
	own            int64         // received messages of this run
	server, client time.Duration // CPU time
	serverKnown    bool
}

func (r *run) read() runSnapshot {
	v := runSnapshot{at: time.Now(), sent: total(r.senders), received: total(r.receivers), own: r.ownReceives(), client: ownCPU()}
	if r.ServerPID != 0 {
		cpu, err := processCPU(r.ServerPID)
		v.server, v.serverKnown = cpu, err == nil
	}
	return v
}

// ownReceives returns the number of received messages of this run.
func (r *run) ownReceives() (n int64) {
	for _, w := range r.receivers {
		n += w.own.Load()
	}
	return n
}

func total(workers []*worker) (n int64) {
	for _, w := range workers {
		n += w.done.Load()
	}
	return n
}

// watch waits until the measurement ends and returns its start and its end.
func (r *run) watch(ctx context.Context, send, receive bool) (begin, end runSnapshot) {
	workers := r.receivers
	if send {
		workers = r.senders
	}
	if r.Count > 0 {
		r.recording.Store(true)
		begin = r.read()
		close(r.starting)
		over := make(chan struct{})
		go func() {
			defer close(over)
			if send {
				r.sending.Wait()
			} else {
				r.group.Wait()
			}
		}()
		r.wait(ctx, workers, over, 0)
		return begin, r.read()
	}
	close(r.starting)
	r.wait(ctx, workers, nil, r.Warmup)
	r.recording.Store(true)
	begin = r.read()
	r.wait(ctx, workers, nil, r.Duration)
	end = r.read()
	for r.needsMore(begin, end, send, receive) && ctx.Err() == nil {
		r.wait(ctx, workers, nil, time.Millisecond)
		end = r.read()
	}
	r.recording.Store(false)
	return begin, end
}

// needsMore reports whether a measurement must continue after its time, because without a message
// it has no results. A run that only receives gives up after [drainPatience], because its queue may
// be empty.
func (r *run) needsMore(begin, end runSnapshot, send, receive bool) bool {
	if send && end.sent == begin.sent {
		return true
	}
	return receive && end.received == begin.received && end.at.Sub(begin.at) < r.Duration+drainPatience
}

// wait shows progress until the work or the context ends, or the duration, if any, has passed.
func (r *run) wait(ctx context.Context, workers []*worker, over <-chan struct{}, d time.Duration) {
	var timeout <-chan time.Time
	if over == nil {
		timeout = time.After(d)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-timeout:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			if r.Progress != nil {
				r.Progress(total(workers))
			}
		}
	}
}

const drainPatience = 30 * time.Second // without progress

// drain waits until the receivers have all sent messages. A server that generates its messages
// never returns the sent ones; then drain does not wait.
func (r *run) drain(ctx context.Context, sent bool) {
	if !sent {
		return
	}
	want := total(r.senders)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	have, since := r.ownReceives(), time.Now()
	for have < want && (have > 0 || total(r.receivers) == 0) {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if n := r.ownReceives(); n > have {
				have, since = n, now
			} else if now.Sub(since) > drainPatience {
				r.failure(fmt.Errorf("bench: %[2]d of %[1]d sent messages were received, then none for %[3]v", want, have, drainPatience))
				return
			}
		}
	}
}

func (r *run) result(begin, end runSnapshot, send, receive bool) Result {
	seconds := end.at.Sub(begin.at).Seconds()
	sent, received := end.sent-begin.sent, end.received-begin.received
	out := Result{
		Mode: "receive", Size: r.Size, Messages: received, Seconds: seconds,
		Accepted: total(r.senders), Completed: total(r.receivers),
	}
	merge := func(workers []*worker) (latency, endToEnd Histogram) {
		for _, w := range workers {
			latency.Merge(&w.latency)
			endToEnd.Merge(&w.endToEnd)
		}
		return latency, endToEnd
	}
	if receive {
		complete, endToEnd := merge(r.receivers)
		out.Complete = new(complete.Latency())
		if endToEnd.Count() > 0 {
			out.EndToEnd = new(endToEnd.Latency())
		}
	}
	if send {
		out.Mode, out.Messages, out.InFlight = "send", sent, r.InFlight
		latency, _ := merge(r.senders)
		out.Send = new(latency.Latency())
	}
	if send && receive {
		out.Mode, out.Received, out.Backlog = "both", new(float64(received)/seconds), new(max(0, end.sent-end.own))
	}
	out.PerSecond = float64(out.Messages) / seconds
	if out.Messages > 0 {
		perMillion := func(d time.Duration) float64 { return d.Seconds() / float64(out.Messages) * 1e6 }
		out.ClientCPU = perMillion(end.client - begin.client)
		if begin.serverKnown && end.serverKnown {
			out.ServerCPU = new(perMillion(end.server - begin.server))
		}
	}
	return out
}

// fail ends the run with the first error that is not a consequence of its end.
func (r *run) fail(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.failure(err)
	}
}

func (r *run) close() {
	for _, c := range r.conns {
		c.Close() //nolint:errcheck // all relevant answers have arrived
	}
}
