package ledger

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// Bounds of questions about the past (docs/decisions/0057).
const (
	// mostQuestions bounds the long questions answered at a time: each uses one core.
	mostQuestions = 4
	// mostShort bounds the short questions answered at a time (docs/decisions/0082).
	mostShort = 8
	// questionTime bounds the time of an answer.
	questionTime = 10 * time.Minute
	// tellAfter is the time that a line may wait so that it is sent together with others. waitAfter
	// is the time without a find after which the client is told that the search continues.
	tellAfter = 50 * time.Millisecond
	waitAfter = 10 * time.Second
	// linesKept is the number of bytes of lines that may wait to be sent: each send costs the
	// broker some 50 µs.
	linesKept = 64 << 10
	// restEvery is the number of bytes that a question reads and sends between two rests
	// (docs/decisions/0087). They take about a millisecond.
	restEvery = 64 << 10
)

var (
	errManyQuestions = refuse(http.StatusServiceUnavailable, "%d long questions about the past are being answered already, which is the limit; try again later.", mostQuestions)
	errManyShort     = refuse(http.StatusServiceUnavailable, "%d short questions about the past are being answered already, which is the limit; try again.", mostShort)
	errMemory        = refuse(http.StatusServiceUnavailable, "Too little memory for a question about the past, because messages have priority; try again later.")
	errLong          = refuse(http.StatusServiceUnavailable, "The answer takes longer than %v; ask about a shorter time or fewer entities, or query a backup with --data.", questionTime)
)

// question returns the route of the question with this verb.
func question(verb string) route {
	return route{http.MethodGet, "v1/" + verb, access.ReadHistory, nil, func(c *call) (any, error) {
		if err := fits(c.query); err != nil {
			return nil, err
		}
		q, err := past.ParseQuestion(verb, c.query, c.now.Std().UTC())
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "%s.", sentence(err))
		}
		if q.Bodies && !c.grant.Rights.Has(access.ReadBodies) {
			return nil, refuse(http.StatusForbidden, "The token lacks the right %v, which bodies need.", access.ReadBodies)
		}
		return c.readHistory(q.Short(c.now), func(ctx context.Context, from past.Source, a *lineAnswer) error {
			l := past.New(from, a.tell)
			l.Remember(&c.h.memory)
			return l.Put(ctx, q)
		})
	}}
}

// maxText bounds the bytes of a parameter of a question, and maxMessage those of a message.
const (
	maxText    = 4 << 10
	maxMessage = 8 << 10
)

// fits refuses a query with a parameter that is too long.
func fits(query url.Values) error {
	for name, texts := range query {
		for _, text := range texts {
			if len(text) > maxText && name != "message" || len(text) > maxMessage {
				return refuse(http.StatusBadRequest, "Parameter %.20s is too long; the limit is %d bytes, for message %d bytes.", name, maxText, maxMessage)
			}
		}
	}
	return nil
}

// readHistory returns an answer that is read from the logs of the broker, or an error if there is
// no room for another one.
func (c *call) readHistory(short bool, read func(context.Context, past.Source, *lineAnswer) error) (any, error) {
	places, share, err := c.h.takePlace(short)
	if err != nil {
		return nil, err
	}
	return &lineAnswer{call: c, places: places, short: short, share: share, read: read}, nil
}

// takePlace takes a slot for a question, and a share of the memory.
func (h *handler) takePlace(short bool) (places slots, share *budget.Share, err error) {
	places, full := h.questions, errManyQuestions
	if short {
		places, full = h.shorts, errManyShort
	}
	if !places.TryAcquire() && !h.answers.giveWay(places) {
		return nil, nil, full
	}
	share, ok := h.Memory.Open()
	if !ok || h.Memory.Level() > budget.Enough {
		if ok {
			share.Close()
		}
		places.Release()
		return nil, nil, errMemory
	}
	return places, share, nil
}

// slots bounds the number of requests that are answered at a time.
type slots chan struct{}

// TryAcquire takes a slot and reports whether one was free.
func (s slots) TryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Release frees a slot.
func (s slots) Release() { <-s }

// lineAnswer is an answer that is sent line by line, as the lines are found.
type lineAnswer struct {
	*call
	places slots // it has one of them
	short  bool  // the question is short
	share  *budget.Share
	read   func(context.Context, past.Source, *lineAnswer) error
	fields []byte          // of the line that is being sent, as JSON
	done   int             // bytes read and sent since the last rest
	ctx    context.Context // ends with the answer
	stop   context.CancelCauseFunc
	reader patience

	mu     sync.Mutex // guards what follows
	begun  bool       // the status has been sent
	behind bool       // the server may have buffered some of what was sent
	lines  bytes.Buffer
	last   time.Time // time of the last send
	gone   error     // why the client can no longer be reached; nil: it can
}

func (a *lineAnswer) send(c *call) {
	ctx, cancel := context.WithTimeoutCause(c.Context(), questionTime, errLong)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer a.places.Release()
	defer func() { a.share.Give(a.share.Has()); a.share.Close() }()
	c.extendDeadlines(questionTime + time.Minute)
	a.last, a.ctx, a.stop = time.Now(), ctx, stop
	over, told := make(chan struct{}), make(chan struct{})
	go func() { defer close(told); a.keepTelling(over) }()
	c.h.answers.begin(a)
	defer c.h.answers.end(a)
	err := a.readSafely(&source{Source: c.h.Past, share: a.share, done: &a.done})
	close(over)
	<-told
	if err != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	a.end(err)
}

// readSafely turns a panic into an error, because a part of the answer may have been sent.
func (a *lineAnswer) readSafely(from past.Source) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.h.Logger.Error("ledger: panic", "method", a.Method, "path", a.URL.Path, "panic", p, "stack", stack())
			err = internal()
		}
	}()
	return a.read(a.ctx, from, a)
}

// tell sends a line of an answer, together with lines that follow shortly after it.
func (a *lineAnswer) tell(l past.Line) error {
	fields, err := l.AppendJSON(a.fields[:0])
	if err != nil {
		return err
	}
	a.fields = fields
	a.done += len(fields) + len(l.Text)
	return a.put(wire.Line{Part: l.Part.String(), Text: l.Text, Fields: fields})
}

func (a *lineAnswer) put(l wire.Line) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines.Write(wire.AppendLine(a.lines.AvailableBuffer(), &l))
	switch {
	case !a.begun:
		a.flush()
	case a.lines.Len() >= linesKept:
		a.write()
	}
	return a.gone
}

// flush sends everything that waits. The caller holds mu.
func (a *lineAnswer) flush() {
	if a.write(); a.gone == nil {
		a.gone = a.patiently(http.NewResponseController(a.w).Flush)
		a.behind = false
	}
}

// write sends what waits, except what the server buffers: the end of a chunk is sent with the next
// write, which saves the broker a packet. The caller holds mu.
func (a *lineAnswer) write() {
	if a.gone != nil {
		return
	}
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", wire.LinesType)
		a.w.WriteHeader(http.StatusOK)
	}
	a.last = time.Now()
	a.gone = a.patiently(func() error {
		_, err := a.w.Write(a.lines.Bytes())
		return err
	})
	a.behind = true
	a.lines.Reset()
}

// keepTelling sends waiting lines, or tells the client that there are none yet, until the answer is
// complete.
func (a *lineAnswer) keepTelling(over <-chan struct{}) {
	tick := time.NewTicker(tellAfter)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case now := <-tick.C:
			if !a.mu.TryLock() { // a send is in progress
				continue
			}
			if a.lines.Len() == 0 && now.Sub(a.last) >= waitAfter {
				a.lines.Write(wire.AppendLine(nil, &wire.Line{Part: wire.Waiting}))
			}
			if a.lines.Len() > 0 || a.behind {
				a.flush()
			}
			a.mu.Unlock()
		}
	}
}

// end sends the last line: that the answer is complete, or why it is not. An answer without such a
// line broke off.
func (a *lineAnswer) end(err error) {
	if a.gone != nil { // the client has disconnected, which is not a fault
		a.h.Logger.Debug("ledger: client of an answer disconnected", "path", a.URL.Path, "error", a.gone)
		return
	}
	if err == nil {
		_ = a.put(wire.Line{Part: wire.End})
	} else {
		r := a.unanswered(err)
		if !a.begun {
			a.fail(r)
			return
		}
		_ = a.put(wire.Line{Part: wire.Failed, Text: r.text, Code: codes[r.status]})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
}

// unanswered returns the refusal for a question that cannot be answered.
func (c *call) unanswered(err error) *refusal {
	var damage *log.CorruptError
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, past.ErrQuestion):
		return refuse(http.StatusBadRequest, "%s.", sentence(err))
	case errors.Is(err, past.ErrNothing):
		return refuse(http.StatusNotFound, "%s.", sentence(err))
	case errors.Is(err, log.ErrGone):
		return refuse(http.StatusServiceUnavailable, "The requested history was removed while it was being read: %s.", strings.TrimPrefix(err.Error(), "log: "))
	case errors.As(err, &damage):
		return refuse(http.StatusServiceUnavailable, "Partition %d cannot be read; ledgerbus partition list shows why.", damage.Partition)
	case errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, "The client closed the request.")
	}
	return c.refused(err)
}

// A source gives questions the logs of the broker, with low priority: reads end when memory is
// short, and yield the processor.
type source struct {
	past.Source
	share *budget.Share
	done  *int // bytes read and sent since the last rest
}

// Namespace returns the namespace of the logs.
func (s *source) Namespace() format.Namespace {
	if n, ok := s.Source.(interface{ Namespace() format.Namespace }); ok {
		return n.Namespace()
	}
	return format.Namespace{}
}

// Open implements [past.Source].
func (s *source) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	p, err := s.Source.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return newLowPriorityLog(p, s), nil
}

// rest counts the bytes of a frame that was read and sent, and pauses once there are restEvery of
// them.
func (s *source) rest(ctx context.Context, read int) {
	if *s.done += read; *s.done < restEvery {
		return
	}
	if b, ok := s.Source.(log.Background); ok {
		b.Pause(ctx, *s.done)
	}
	*s.done = 0
}

func stack() string {
	buf := make([]byte, 64<<10)
	return string(buf[:runtime.Stack(buf, false)])
}
