package host

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// eraseEvery is how often the eraser looks whether a body that it waits for has been sealed.
	eraseEvery = time.Second
	// eraseAgain is how long the eraser leaves a log alone in which a body could not be erased.
	eraseAgain = time.Minute
	// noLeast has a file written again even if that makes it no shorter.
	noLeast = 0
)

// eraser carries out requests to erase bodies (docs/decisions/0085): one goroutine of the namespace.
// All that it knows is in the logs as well, so what a run leaves open, the next one finishes.
type eraser struct {
	n    *Namespace
	logs map[engine.PartitionID]*openErasures
}

// openErasures are the requests in the log of a partition that have not been carried out.
type openErasures struct {
	run   *incarnation // of the partition; another one has its log read again
	list  map[request]*progress
	again time.Time // not to be tried before
	said  string    // what was logged last, so that it is logged once
}

// request is a body that is to be erased.
type request struct {
	slice   event.Slice
	message event.SequenceNumber
	at      event.Position
}

// progress is what has become of a request.
type progress struct {
	size uint32 // of the body
	kept error  // why it is still there
	// halted: the file with the body could not be removed. The next start removes it.
	halted bool
}

// run carries out what callers ask for and what is open, until the context ends.
func (v *eraser) run(ctx context.Context, asked <-chan *erasure) {
	ticker := time.NewTicker(eraseEvery)
	defer ticker.Stop()
	for {
		for i := range v.n.slots {
			if o := v.open(ctx, engine.PartitionID(i)); o != nil {
				v.finish(ctx, engine.PartitionID(i), o)
			}
		}
		select {
		case <-ctx.Done():
			return
		case e := <-asked:
			e.outcome <- v.take(ctx, e)
		case <-ticker.C:
		}
	}
}

// open returns the open requests of a partition; nil: it does not serve.
func (v *eraser) open(ctx context.Context, id engine.PartitionID) *openErasures {
	t := v.n.slots[id].serves.Load()
	if t == nil {
		delete(v.logs, id)
		return nil
	}
	o := v.logs[id]
	if o == nil || o.run != t {
		list, err := v.requests(ctx, t.log)
		switch {
		case ctx.Err() != nil, errors.Is(err, log.ErrGone): // history went meanwhile: again
			return nil
		case err != nil:
			v.n.logger.Error("requests to erase bodies cannot be read; those of earlier runs stay open", "partition", id, "error", err)
		}
		o = &openErasures{run: t, list: list}
		v.logs[id] = o
	}
	return o
}

// requests reads the requests in a log that have not been carried out. After an error there are none.
func (v *eraser) requests(ctx context.Context, p log.Partition) (map[request]*progress, error) {
	list := map[request]*progress{}
	if !slices.Contains(v.n.store.Namespace().Capabilities, log.Erasures) {
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

// take carries out what a caller asks for. If that is not possible now the request stays open.
func (v *eraser) take(ctx context.Context, e *erasure) error {
	o := v.open(ctx, e.id)
	if o == nil || o.run.log != e.log {
		return notServing()
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

// request makes it durable who asks for the erasure, and why.
func (e *erasure) request(ctx context.Context) error {
	if err := e.n.store.Use(log.Erasures); err != nil {
		return notMarked(e.n.logger, log.Erasures, err)
	}
	fact := &event.BodyErased{Envelope: event.Envelope{Slice: e.slice}, Sequence: e.message, Position: e.body.Position, Size: e.body.Size}
	if _, err := e.n.ask(ctx, e.id, &engine.Note{Fact: fact, Origin: e.by, Why: e.why}); err != nil {
		return err
	}
	e.n.logger.Info("the erasure of a body was requested", "partition", e.id, "entity", e.slice.Entity, "sequence", e.message,
		"bytes", e.body.Size, "by", principal(e.by), "reason", e.why.Reason)
	return nil
}

var errUnsealed = errors.New("it is in a part of the log that is still as it was written, and can be erased when that is sealed")

// finish erases the bodies of open requests that are in sealed files, and puts down which bodies are gone.
func (v *eraser) finish(ctx context.Context, id engine.PartitionID, o *openErasures) {
	if len(o.list) == 0 || time.Now().Before(o.again) {
		return
	}
	var gone []request
	files, segments := map[string][]request{}, o.run.log.Segments()
	for r, p := range o.list {
		i := slices.IndexFunc(segments, func(s log.SegmentInfo) bool { return s.First <= event.LSN(r.at) && event.LSN(r.at) < s.End })
		switch {
		case p.halted:
		case i >= 0 && !strings.HasSuffix(segments[i].File, sealedSuffix):
			p.kept = errUnsealed
		case o.gone(r, p):
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
		if err := v.put(ctx, id, r); err != nil {
			o.list[r].kept, o.again = err, time.Now().Add(eraseAgain)
			return
		}
		delete(o.list, r)
	}
}

// gone reports whether a body is no longer in the log. Else p says why it is not, where that is an error.
func (o *openErasures) gone(r request, p *progress) bool {
	_, err := o.run.log.ReadInto(event.Blob{Position: r.at, Size: p.size}, make([]byte, min(p.size, 1)))
	p.kept = err
	return errors.Is(err, event.ErrErased)
}

// drop writes a file again without the bodies that are to be erased, and reports whether it did.
func (v *eraser) drop(ctx context.Context, id engine.PartitionID, o *openErasures, file string, list []request) bool {
	unwanted := map[event.Position]bool{}
	for _, r := range list {
		unwanted[r.at] = true
	}
	_, err := o.run.log.(log.Compactor).DropBodies(ctx, file, func(b *log.Body) bool { return !unwanted[b.Position] }, noLeast)
	if err == nil {
		return true
	}
	if !errors.Is(err, fs.ErrNotExist) { // else others wrote it again meanwhile
		o.again = time.Now().Add(eraseAgain)
	}
	for _, r := range list {
		p := o.list[r]
		p.halted = !errors.Is(err, log.ErrTooLittle) && o.gone(r, p)
		p.kept = err
	}
	if ctx.Err() == nil && o.said != err.Error() {
		o.said = err.Error()
		v.n.logger.Warn("bodies are not erased yet", "partition", id, "file", file, "bodies", len(list), "error", err)
	}
	return false
}

// put puts down that a body is gone.
func (v *eraser) put(ctx context.Context, id engine.PartitionID, r request) error {
	if err := v.n.store.Use(log.Erased); err != nil {
		return notMarked(v.n.logger, log.Erased, err)
	}
	fact := &event.ErasureFinished{Envelope: event.Envelope{Slice: r.slice}, Sequence: r.message, Position: r.at}
	if _, err := v.n.ask(ctx, id, &engine.Note{Fact: fact}); err != nil {
		return err
	}
	v.n.logger.Info("a body was erased", "partition", id, "entity", r.slice.Entity, "sequence", r.message)
	return nil
}
