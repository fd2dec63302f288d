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
	// mostQuestions is how many are answered at a time: each is the work of one core.
	mostQuestions = 4
	// questionTime is how long an answer may take.
	questionTime = 10 * time.Minute
	// tellAfter is how long a line may wait to be sent together with others, and waitAfter how long
	// nothing may be found before the client is told so.
	tellAfter = 50 * time.Millisecond
	waitAfter = 10 * time.Second
	// linesKept is how many bytes of lines may wait to be sent: each time costs the broker some 50
	// µs.
	linesKept = 64 << 10
	// restEvery is how many bytes a question reads and tells between two rests
	// (docs/decisions/0087): what takes it a millisecond or so.
	restEvery = 64 << 10
)

var (
	errManyQuestions = refuse(http.StatusServiceUnavailable, "%d questions about the past are being answered already, which is the limit; try again later.", mostQuestions)
	errMemory        = refuse(http.StatusServiceUnavailable, "There is too little memory for a question about the past; messages come first.")
	errLong          = refuse(http.StatusServiceUnavailable, "The answer takes longer than %v: ask about a shorter time or fewer entities, or put the question to a backup with --data.", questionTime)
)

// question is the route of a question, which its verb names.
func question(verb string) route {
	return route{http.MethodGet, "v1/" + verb, access.ReadHistory, func(c *call) (any, error) {
		if err := fits(c.query); err != nil {
			return nil, err
		}
		q, err := past.ParseQuestion(verb, c.query, c.now.Std().UTC())
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "%s.", sentence(err))
		}
		if q.Bodies && !c.grant.Rights.Has(access.ReadBodies) {
			return nil, refuse(http.StatusForbidden, "Bodies need the right %v, which the token does not give.", access.ReadBodies)
		}
		return c.readHistory(func(ctx context.Context, from past.Source, a *answering) error {
			l := past.New(from, a.tell)
			l.Remember(&c.h.memory)
			return l.Put(ctx, q)
		})
	}}
}

// maxText bounds what a question says under one name, bytes, and maxMessage a message.
const (
	maxText    = 4 << 10
	maxMessage = 8 << 10
)

// fits refuses a query that says too much under one name.
func fits(query url.Values) error {
	for name, texts := range query {
		for _, text := range texts {
			if len(text) > maxText && name != "message" || len(text) > maxMessage {
				return refuse(http.StatusBadRequest, "Not a question: %.20s has more than %d bytes, or a message more than %d.", name, maxText, maxMessage)
			}
		}
	}
	return nil
}

// readHistory is an answer that is read from the logs of the broker, if there is room for another
// one.
func (c *call) readHistory(read func(context.Context, past.Source, *answering) error) (any, error) {
	if !c.h.questions.TryAcquire() && !c.h.answers.giveWay(c.h.questions) {
		return nil, errManyQuestions
	}
	share, ok := c.h.Memory.Open()
	if !ok || c.h.Memory.Level() > budget.Enough {
		if ok {
			share.Close()
		}
		c.h.questions.Release()
		return nil, errMemory
	}
	return &answering{call: c, share: share, read: read}, nil
}

// slots bound how many do something at a time.
type slots chan struct{}

// TryAcquire takes a slot, if there is one.
func (s slots) TryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Release gives it back.
func (s slots) Release() { <-s }

// answering is an answer that is sent line by line, as it is found.
type answering struct {
	*call
	share  *budget.Share
	read   func(context.Context, past.Source, *answering) error
	fields []byte          // of the line that is being told, as JSON
	done   int             // bytes that were read and told since the last rest
	ctx    context.Context // that the answer ends with
	stop   context.CancelCauseFunc
	reader patience

	mu     sync.Mutex // guards what follows
	begun  bool       // the status has been sent
	behind bool       // the server may keep some of what was sent
	lines  bytes.Buffer
	last   time.Time // when something was sent
	gone   error     // whoever asked
}

func (a *answering) send(c *call) {
	ctx, cancel := context.WithTimeoutCause(c.Context(), questionTime, errLong)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer c.h.questions.Release()
	defer func() { a.share.Give(a.share.Has()); a.share.Close() }()
	c.takes(questionTime + time.Minute)
	a.last = time.Now()
	over, told := make(chan struct{}), make(chan struct{})
	go func() { defer close(told); a.keepTelling(over) }()
	a.ctx, a.stop = ctx, stop
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

// readSafely makes an error of a panic, for a part of the answer may have been sent.
func (a *answering) readSafely(from past.Source) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.h.Logger.Error("ledger: panic", "method", a.Method, "path", a.URL.Path, "panic", p, "stack", stack())
			err = internal()
		}
	}()
	return a.read(a.ctx, from, a)
}

// tell sends a line of an answer, with those that come shortly after it.
func (a *answering) tell(l past.Line) error {
	fields, err := l.AppendJSON(a.fields[:0])
	if err != nil {
		return err
	}
	a.fields = fields
	a.done += len(fields) + len(l.Text)
	return a.put(wire.Line{Part: l.Part.String(), Text: l.Text, Fields: fields})
}

func (a *answering) put(l wire.Line) error {
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

// flush sends what waits, all of it. The caller holds mu.
func (a *answering) flush() {
	if a.write(); a.gone == nil {
		a.gone = a.patiently(http.NewResponseController(a.w).Flush)
		a.behind = false
	}
}

// write sends what waits, but for what the server keeps: the end of a chunk goes with what follows
// it, which saves the broker a packet. The caller holds mu.
func (a *answering) write() {
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

// keepTelling sends lines that wait, and says that there are none, until the answer is over.
func (a *answering) keepTelling(over <-chan struct{}) {
	tick := time.NewTicker(tellAfter)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case now := <-tick.C:
			if !a.mu.TryLock() { // something is being sent
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

// end sends the end, or why there is none. Without either the answer is not whole.
func (a *answering) end(err error) {
	if a.gone != nil { // nobody is there to be told, and nothing is wrong here
		a.h.Logger.Debug("ledger: the client of an answer has gone", "path", a.URL.Path, "error", a.gone)
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

// unanswered is what is told of a question that has no answer.
func (a *answering) unanswered(err error) *refusal {
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
		return refuse(http.StatusServiceUnavailable, "The history that was asked about was removed while it was being read: %s.", strings.TrimPrefix(err.Error(), "log: "))
	case errors.As(err, &damage):
		return refuse(http.StatusServiceUnavailable, "Partition %d cannot be read: ledgerbus partition list says why.", damage.Partition)
	case errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, "The client closed the request.")
	}
	return a.refused(err)
}

// source is the logs of the broker, as questions read them: they give way where memory is short,
// and to whatever else wants the processor.
type source struct {
	past.Source
	share *budget.Share
	done  *int // bytes that were read and told since the last rest
}

// Namespace returns the namespace that the logs are of.
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

// rest rests behind a frame, if much was read and told.
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
