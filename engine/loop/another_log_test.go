package loop

import (
	"context"
	"errors"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// replicatedLog is a log of another kind: sealed frames count as written, and as durable once a
// majority has them, which is when the test says so. Of package log it uses only the batches.
type replicatedLog struct {
	bytes   []byte // from LSN 8 on
	durable event.LSN
	lead    *replicatedWriter
}

// replicatedWriter writes a replicatedLog.
type replicatedWriter struct {
	log   *replicatedLog
	open  *log.Batch
	epoch log.Epoch
	chain uint32
	holds bool // the majority does not answer
	moved chan struct{}
}

type receipt struct{ from, to event.LSN }

func (receipt) Done() <-chan struct{} { return nil }
func (receipt) Err() error            { return nil }
func (r receipt) LSN() event.LSN      { return r.from }
func (r receipt) End() event.LSN      { return r.to }

func (c *replicatedLog) end() event.LSN { return format.FirstLSN + event.LSN(len(c.bytes)) }

func (c *replicatedLog) ID() log.PartitionID                                     { return 0 }
func (c *replicatedLog) Bounds() (first, committed event.LSN)                    { return format.FirstLSN, c.durable }
func (c *replicatedLog) Recovery() log.Recovery                                  { return log.Recovery{} }
func (c *replicatedLog) Segments() []log.SegmentInfo                             { return nil }
func (c *replicatedLog) Summaries(context.Context) iter.Seq2[log.Summary, error] { return nil }
func (c *replicatedLog) Checkpoints() []log.CheckpointInfo                       { return nil }
func (c *replicatedLog) OpenCheckpoint(event.LSN) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}
func (c *replicatedLog) SaveCheckpoint(event.LSN, func(io.Writer) error) error {
	return errors.ErrUnsupported
}

func (c *replicatedLog) ReadInto(b event.Blob, dst []byte) (int, error) {
	return copy(dst, c.bytes[b.Position-event.Position(format.FirstLSN):]), nil
}

func (c *replicatedLog) ReadBlob(b event.Blob, dst []byte) ([]byte, error) {
	at := b.Position - event.Position(format.FirstLSN)
	return append(dst, c.bytes[at:at+event.Position(b.Size)]...), nil
}

func (c *replicatedLog) Read(_ context.Context, from event.LSN) iter.Seq2[log.Frame, error] {
	return func(yield func(log.Frame, error) bool) {
		for at := event.LSN(format.FirstLSN); at < c.durable; {
			entry := c.bytes[at-format.FirstLSN:]
			var h format.Header
			if ok, err := h.Decode(entry); !ok {
				yield(log.Frame{}, errors.Join(err, errors.New("no frame")))
				return
			}
			f := log.Frame{LSN: h.LSN, Next: h.Next(), Epoch: h.Epoch, Kind: h.Kind, Level: h.Level, Time: h.First, Count: h.Count, Base: event.Position(h.LSN),
				Bodies: [2]uint32{format.BodiesAt, format.BodiesAt + h.Bodies}, Records: entry[h.RecordsAt():][:h.Records]}
			if at >= from && !yield(f, nil) {
				return
			}
			at = h.Next()
		}
	}
}

// LastStop implements [log.Partition]: the bytes are not kept when a run ends.
func (c *replicatedLog) LastStop() event.Stop { return event.StopNone }

func (c *replicatedLog) Lead(context.Context) (log.Writer, error) {
	w := &replicatedWriter{log: c, epoch: 1, moved: make(chan struct{}, 1)}
	if c.lead != nil {
		w.epoch = c.lead.epoch + 1
	}
	w.open, c.lead = log.NewBatch(c.end), w
	return w, nil
}

func (w *replicatedWriter) Epoch() log.Epoch         { return w.epoch }
func (w *replicatedWriter) Batch() *log.Batch        { return w.open }
func (w *replicatedWriter) Written() event.LSN       { return w.log.end() }
func (w *replicatedWriter) Durable() event.LSN       { return w.log.durable }
func (w *replicatedWriter) Moved() <-chan struct{}   { return w.moved }
func (w *replicatedWriter) Lost() <-chan struct{}    { return nil }
func (w *replicatedWriter) Err() error               { return nil }
func (w *replicatedWriter) Close() error             { return nil }
func (w *replicatedWriter) DiskState() log.DiskState { return log.DiskState{} }

func (w *replicatedWriter) Append(b *log.Batch) log.Ticket {
	h := format.Header{Epoch: w.epoch, Durable: w.log.durable, Chain: w.chain}
	from := b.LSN()
	w.log.bytes = append(w.log.bytes, b.Seal(&h)...)
	w.chain, w.open = h.Sum, log.NewBatch(w.log.end)
	return receipt{from, w.log.end()}
}

func (w *replicatedWriter) Write(b *log.Batch) log.Ticket { return w.Append(b) }

func (w *replicatedWriter) Sync() {
	if w.holds {
		return
	}
	w.log.durable = w.log.end()
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// A loop works over a log that is not made of files: it needs only what the interfaces of package
// log say.
func TestAnotherLog(t *testing.T) {
	t.Parallel()
	plog := &replicatedLog{durable: format.FirstLSN}
	h := &drivenLoop{t: t, plog: plog, now: event.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	h.lead(index.New())
	if r := h.ask(&engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: testQueue()}); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.configure()
	send := &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("the body")}}}
	if r := h.ask(send); r.Err != nil {
		t.Fatal(r.Err)
	}
	plog.lead.holds = true
	h.loop.Turn([]engine.Request{{Command: send, Sink: h, Tag: 99}})
	h.loop.Committed()
	if len(h.got) > 0 {
		t.Errorf("answered before a majority had it: %v", h.heard())
	}
	plog.lead.holds = false
	plog.lead.Sync()
	h.turn()
	if len(h.got) != 1 || h.got[0].Tag != 99 || h.got[0].Err != nil {
		t.Errorf("answered with %v when a majority had it", h.heard())
	}
	state := h.loop.part.Index().Encode(nil)
	h.restart()
	if string(h.loop.part.Index().Encode(nil)) != string(state) {
		t.Error("another state after a new leader has replayed the log")
	}
	h.got = nil
	r := h.ask(&engine.Peek{Slice: handEntity, From: 1, Count: 10, MaxBytes: 1 << 20})
	if len(r.Messages()) != 2 {
		t.Fatalf("%d messages, %v", len(r.Messages()), r.Err)
	}
	for _, m := range r.Messages() {
		if p, err := plog.ReadBlob(m.Body, nil); err != nil || string(p) != "the body" || !m.Body.Matches(p) {
			t.Errorf("message %d has the body %q, %v", m.Sequence, p, err)
		}
	}
}
