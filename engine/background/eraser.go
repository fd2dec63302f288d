package background

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// eraseEvery is the interval at which the eraser checks whether a body that it waits for is
	// sealed.
	eraseEvery = time.Second
	// eraseAgain is how long the eraser leaves a log alone after a body in it could not be erased.
	eraseAgain = time.Minute
	// noLeast makes a file be rewritten even if it gets no shorter.
	noLeast = 0
)

// Eraser carries out requests to erase bodies (docs/decisions/0085). One goroutine of the broker
// runs it. Everything it knows is in the logs as well, so the next run finishes what a run leaves
// open.
type Eraser struct {
	// set once in NewEraser
	of    EraserEnv
	asked chan *erasure
	ended chan struct{} // closed when Run has returned

	cause error // why Run returned; set before ended is closed; ErrUnknown if it panicked
	logs  map[engine.PartitionID]*openErasures
}

// EraserEnv is what an [Eraser] needs of its broker.
type EraserEnv interface {
	Logger() *slog.Logger
	Resolve(path string) (engine.Target, error)
	// Logs returns the logs of the partitions that serve. A partition that was absent comes back
	// with another log.
	Logs() map[engine.PartitionID]log.Partition
	// State calls look with a durable state of a partition, and with the bodies that were unread
	// when the state was taken.
	State(ctx context.Context, id engine.PartitionID, look func(s *index.Snapshot, unread []event.Blob) error) error
	// Uses reports whether the data directory may have data of a capability.
	Uses(capability string) bool
	// Note makes a fact of a capability durable.
	Note(ctx context.Context, id engine.PartitionID, capability string, note *engine.Note) error
}

// NewEraser returns an eraser that knows of no requests yet.
func NewEraser(of EraserEnv) *Eraser {
	return &Eraser{of: of, asked: make(chan *erasure), ended: make(chan struct{}), cause: engine.ErrUnknown, logs: map[engine.PartitionID]*openErasures{}}
}

// openErasures holds the requests in the log of a partition that have not been carried out.
type openErasures struct {
	log        log.Partition // if the partition has another log, it is read again
	list       map[request]*progress
	again      time.Time // no attempt before
	lastLogged string    // logged last, so that it is logged once
}

// request names a body to erase.
type request struct {
	slice   event.Slice
	message event.SequenceNumber
	at      event.Position
}

// progress is the state of a request.
type progress struct {
	size uint32 // size of the body
	kept error  // why the body is still there
	// the file with the body could not be removed; the next start removes it
	halted bool
}

// Run carries out callers' requests and open ones, until the context ends. Callers that still wait
// then get its cause.
func (v *Eraser) Run(ctx context.Context) {
	defer close(v.ended)
	ticker := time.NewTicker(eraseEvery)
	defer ticker.Stop()
	for {
		v.look(ctx)
		select {
		case <-ctx.Done():
			v.cause = context.Cause(ctx)
			return
		case e := <-v.asked:
			e.outcome <- v.carryOut(ctx, e)
		case <-ticker.C:
		}
	}
}

// look carries out the open requests.
func (v *Eraser) look(ctx context.Context) {
	logs := v.of.Logs()
	maps.DeleteFunc(v.logs, func(id engine.PartitionID, _ *openErasures) bool { return logs[id] == nil })
	for _, id := range slices.Sorted(maps.Keys(logs)) {
		if o := v.open(ctx, id, logs[id]); o != nil {
			v.finish(ctx, id, o)
		}
	}
}

// open returns the open requests in the log of a partition; nil: they cannot be read now.
func (v *Eraser) open(ctx context.Context, id engine.PartitionID, p log.Partition) *openErasures {
	o := v.logs[id]
	if o == nil || o.log != p {
		list, err := v.requests(ctx, p)
		switch {
		case ctx.Err() != nil, errors.Is(err, log.ErrGone): // deleted during the read: again
			return nil
		case err != nil:
			v.of.Logger().Error("erasure requests cannot be read; requests of earlier runs stay open", "partition", id, "error", err)
		}
		o = &openErasures{log: p, list: list}
		v.logs[id] = o
	}
	return o
}

// requests reads the requests in a log that have not been carried out. After an error it returns
// none.
func (v *Eraser) requests(ctx context.Context, p log.Partition) (map[request]*progress, error) {
	list := map[request]*progress{}
	if !v.of.Uses(log.Erasures) {
		return list, nil
	}
	for rec, err := range replay.Found(ctx, p, log.Search{Kinds: []event.Kind{event.KindBodyErased, event.KindErasureFinished}}) {
		if err != nil {
			return map[request]*progress{}, err
		}
		for _, ev := range rec.Events {
			switch ev := ev.(type) {
			case *event.BodyErased:
				list[request{ev.Slice, ev.Sequence, ev.Position}] = &progress{size: ev.Size}
			case *event.ErasureFinished:
				delete(list, request{ev.Slice, ev.Sequence, ev.Position})
			}
		}
	}
	return list, nil
}

// carryOut carries out a caller's request. If that is not possible now, the request stays open.
func (v *Eraser) carryOut(ctx context.Context, e *erasure) error {
	if v.of.Logs()[e.id] != e.log {
		return loop.NotServing()
	}
	o := v.open(ctx, e.id, e.log)
	if o == nil {
		return loop.NotServing()
	}
	r := request{e.slice, e.message, e.body.Position}
	if o.list[r] == nil {
		if err := e.request(ctx); err != nil {
			return err
		}
		o.list[r] = &progress{size: e.body.Size}
	}
	o.again = time.Time{}
	v.finish(ctx, e.id, o)
	if p := o.list[r]; p != nil {
		return engine.Refuse(engine.Busy, "The body is not erased yet: %v. The request is in the log, and the broker carries it out as soon as it can.", p.kept)
	}
	return nil
}

// request makes durable who asks for the erasure, and why.
func (e *erasure) request(ctx context.Context) error {
	fact := &event.BodyErased{Envelope: event.Envelope{Slice: e.slice}, Sequence: e.message, Position: e.body.Position, Size: e.body.Size}
	if err := e.of.Note(ctx, e.id, log.Erasures, &engine.Note{Fact: fact, Origin: e.by, Why: e.why}); err != nil {
		return err
	}
	principal := ""
	if e.by != nil {
		principal = e.by.Principal
	}
	e.of.Logger().Info("erasure of a body requested", "partition", e.id, "entity", e.slice.Entity, "sequence", e.message,
		"bytes", e.body.Size, "by", principal, "reason", e.why.Reason)
	return nil
}

var errUnsealed = errors.New("it is in an unsealed part of the log and is erased once that part is sealed")

// finish erases the requested bodies that are in sealed files, and records which bodies are erased.
func (v *Eraser) finish(ctx context.Context, id engine.PartitionID, o *openErasures) {
	if len(o.list) == 0 || time.Now().Before(o.again) {
		return
	}
	var gone []request
	files, segments := map[string][]request{}, o.log.Segments()
	for r, p := range o.list {
		i := slices.IndexFunc(segments, func(s log.SegmentInfo) bool { return s.First <= event.LSN(r.at) && event.LSN(r.at) < s.End })
		switch {
		case p.halted:
		case i >= 0 && !strings.HasSuffix(segments[i].File, sealedSuffix):
			p.kept = errUnsealed
		case o.isErased(r, p):
			gone = append(gone, r)
		case i >= 0:
			files[segments[i].File] = append(files[segments[i].File], r)
		default:
			o.again = time.Now().Add(eraseAgain)
		}
	}
	for file, list := range files {
		if ctx.Err() == nil && v.drop(ctx, id, o, file, list) {
			gone = append(gone, list...)
		}
	}
	slices.SortFunc(gone, func(a, b request) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.message, b.message)) })
	for _, r := range gone {
		if err := v.noteErased(ctx, id, r); err != nil {
			o.list[r].kept, o.again = err, time.Now().Add(eraseAgain)
			return
		}
		delete(o.list, r)
	}
}

// isErased reports whether a body is no longer in the log. If it is still there because of an
// error, it stores the error in p.
func (o *openErasures) isErased(r request, p *progress) bool {
	_, err := o.log.ReadInto(event.Blob{Position: r.at, Size: p.size}, make([]byte, min(p.size, 1)))
	p.kept = err
	return errors.Is(err, event.ErrErased)
}

// drop rewrites a file without the requested bodies, and reports whether it did.
func (v *Eraser) drop(ctx context.Context, id engine.PartitionID, o *openErasures, file string, list []request) bool {
	unwanted := map[event.Position]bool{}
	for _, r := range list {
		unwanted[r.at] = true
	}
	_, err := o.log.(log.Compactor).DropBodies(ctx, file, func(b *log.Body) bool { return !unwanted[b.Position] }, noLeast)
	if err == nil {
		return true
	}
	if !errors.Is(err, fs.ErrNotExist) { // else another job rewrote it
		o.again = time.Now().Add(eraseAgain)
	}
	for _, r := range list {
		p := o.list[r]
		p.halted = !errors.Is(err, log.ErrTooLittle) && o.isErased(r, p)
		p.kept = err
	}
	if ctx.Err() == nil && o.lastLogged != err.Error() {
		o.lastLogged = err.Error()
		v.of.Logger().Warn("bodies not erased yet", "partition", id, "file", file, "bodies", len(list), "error", err)
	}
	return false
}

// noteErased records that a body is erased.
func (v *Eraser) noteErased(ctx context.Context, id engine.PartitionID, r request) error {
	fact := &event.ErasureFinished{Envelope: event.Envelope{Slice: r.slice}, Sequence: r.message, Position: r.at}
	if err := v.of.Note(ctx, id, log.Erased, &engine.Note{Fact: fact}); err != nil {
		return err
	}
	v.of.Logger().Info("body erased", "partition", id, "entity", r.slice.Entity, "sequence", r.message)
	return nil
}
