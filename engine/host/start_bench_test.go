package host

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// BenchmarkStart100GB starts a broker over 100 GB of sealed history, as first written, with
// 1,000,000 waiting messages, all in one log, and then sums up the content of the log, as log stat
// does. Header, indexes, ids, contents and footer of every sealed file are real; its blocks are a
// hole, so any read of one finds a wrong checksum.
func BenchmarkStart100GB(b *testing.B) {
	dir := b.TempDir()
	h := history{b: b, dir: dir}
	h.wait(1_000_000)
	h.seal()
	h.grow(100e9)
	b.ResetTimer()
	var opened, started, summed time.Duration
	for range b.N {
		began := time.Now()
		store, err := log.Open(context.Background(), dir, log.Options{})
		if err != nil {
			b.Fatal(err)
		}
		opened += time.Since(began)
		n, err := Open(context.Background(), store, Options{CheckpointBytes: -1})
		if err != nil {
			b.Fatal(err)
		}
		started += time.Since(began)
		if r := n.Recovered()[0]; r.Messages != 1_000_000 || r.Log.Bytes < 100e9 {
			b.Fatalf("recovered %+v", r)
		}
		began = time.Now()
		p, err := store.Open(context.Background(), 0)
		if err != nil {
			b.Fatal(err)
		}
		events := uint64(0)
		for s, err := range p.Summaries(context.Background()) {
			if err != nil {
				b.Fatal(err)
			}
			events += s.Events
		}
		summed += time.Since(began)
		if events < 50e6 {
			b.Fatalf("%d events", events)
		}
		if err := errors.Join(n.Close(), store.Close()); err != nil {
			b.Fatal(err)
		}
	}
	for name, took := range map[string]time.Duration{"s/open": opened, "s/start": started, "s/stat": summed} {
		b.ReportMetric(took.Seconds()/float64(b.N), name)
	}
}

// history makes a directory with much history.
type history struct {
	b   *testing.B
	dir string
	ns  format.Namespace
	tag uint32
}

// wait makes the directory, with waiting messages and a checkpoint of them.
func (h *history) wait(messages int) {
	store, err := log.Open(context.Background(), h.dir, log.Options{Partitions: 1})
	if err != nil {
		h.b.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{CheckpointBytes: -1})
	if err != nil {
		h.b.Fatal(err)
	}
	made := &broker{n, store}
	q := made.queue(h.b, "orders", testQueue())
	body, random, in := make([]byte, 1024), rand.NewChaCha8([32]byte{53}), newInbox()
	for i := 0; i < messages; {
		cmd := &engine.Send{Slice: q.Slice(0)}
		for range 1000 {
			random.Read(body)
			cmd.Messages = append(cmd.Messages, engine.Message{ID: fmt.Appendf(nil, "order-%d", i), Body: append([]byte(nil), body...)})
			i++
		}
		made.Submit(0, []engine.Request{{Command: cmd, Sink: in}})
		if r := in.wait(1)[0]; r.Err != nil {
			h.b.Fatal(r.Err)
		}
	}
	if err := n.Close(); err != nil {
		h.b.Fatal(err)
	}
	p, err := store.Open(context.Background(), 0)
	if err != nil {
		h.b.Fatal(err)
	}
	s := replay.Begin(p)
	if err := s.Run(context.Background(), replay.Watch{}); err != nil {
		h.b.Fatal(err)
	}
	_, end := p.Bounds()
	save := func(w io.Writer) error {
		_, err := w.Write(s.Index.Encode(nil))
		return err
	}
	if err := errors.Join(p.SaveCheckpoint(end, save), store.Close()); err != nil {
		h.b.Fatal(err)
	}
	h.ns = store.Namespace()
	if h.tag, err = h.ns.Tag(); err != nil {
		h.b.Fatal(err)
	}
}

// seal makes sealed files of all chapters except a new one, which only has the beginning of a run.
func (h *history) seal() {
	store, err := log.Open(context.Background(), h.dir, log.Options{Manual: true, SealAfter: -1})
	if err != nil {
		h.b.Fatal(err)
	}
	p, err := store.Open(context.Background(), 0)
	var w log.Writer
	if err == nil {
		w, err = p.Lead(context.Background())
	}
	for more := err == nil; more; {
		more, err = p.(log.Sealer).Seal(context.Background())
	}
	if err == nil {
		err = errors.Join(w.Close(), store.Close())
	}
	if err != nil {
		h.b.Fatal(err)
	}
}

// grow replaces the last chapter by sealed files of that many bytes in all: copies of a whole
// sealed file of the log, each at its own addresses. The checkpoint moves after them, and so does
// the end of the log.
func (h *history) grow(bytes int64) {
	dir := filepath.Join(h.dir, format.PartitionDir(0))
	m, err := format.DecodeManifest(h.read(filepath.Join(dir, "manifest")), 0, h.tag)
	if err != nil {
		h.b.Fatal(err)
	}
	last := m.Sealed[len(m.Sealed)-1]
	pattern := newPattern(h, filepath.Join(dir, "sealed", format.SealedName(m.Sealed[1].Chapter, 1)))
	at := format.Mark{LSN: last.End, Epoch: last.Epoch, Chain: last.Last}
	chapter := last.Chapter
	for at.LSN < event.LSN(bytes) {
		chapter++
		s := pattern.at(chapter, at, filepath.Join(dir, "sealed", format.SealedName(chapter, 1)))
		m.Sealed, at = append(m.Sealed, s), format.Mark{LSN: s.End, Epoch: s.Epoch, Chain: s.Last}
	}
	old := m.Chapters[0]
	m.Chapters = []format.Chapter{{ID: chapter + 1, Chain: at.Chain, First: at.LSN, Created: old.Created, SegmentBytes: old.SegmentBytes}}
	first := filepath.Join(dir, "wal", format.ChapterName(chapter+1))
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "wal", format.ChapterName(old.ID))), os.Mkdir(first, 0o700)); err != nil {
		h.b.Fatal(err)
	}
	h.write(filepath.Join(first, format.SegmentName(1)), nil)
	h.write(filepath.Join(dir, "manifest"), m.Encode(0, h.tag))
	h.write(filepath.Join(dir, "progress"), format.Progress.Encode(0, h.tag, at))
	h.write(filepath.Join(h.dir, "clean"), format.EncodeClean(h.tag, []format.Mark{at}))
	files, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*.ckpt"))
	if err != nil || len(files) != 1 {
		h.b.Fatalf("%+v %+v; want len(files) == 1", files, err)
	}
	p := h.read(files[0])
	c, err := format.DecodeCheckpoint(p[:format.CheckpointHead], p[len(p)-format.CheckpointTrailer:], int64(len(p)), 0, h.tag)
	if err != nil {
		h.b.Fatal(err)
	}
	c.LSN, c.Epoch, c.Chain = at.LSN, at.Epoch, at.Chain
	h.write(filepath.Join(dir, "checkpoints", format.CheckpointName(at.LSN)), append(c.Head(0, h.tag), p[format.CheckpointHead:]...))
}

func (h *history) read(name string) []byte {
	p, err := os.ReadFile(name)
	if err != nil {
		h.b.Fatal(err)
	}
	return p
}

func (h *history) write(name string, p []byte) {
	if err := os.WriteFile(name, p, 0o600); err != nil {
		h.b.Fatal(err)
	}
}

// sealedPattern is a sealed file that others are copies of.
type sealedPattern struct {
	h    *history
	head sealed.Header
	foot sealed.Footer
	rest []byte // the part after its blocks, except the footer
	size int64
}

func newPattern(h *history, name string) *sealedPattern {
	p := h.read(name)
	f, err := os.Open(name)
	if err != nil {
		h.b.Fatal(err)
	}
	defer f.Close()
	s, err := sealed.Open(f, int64(len(p)))
	if err != nil {
		h.b.Fatal(err)
	}
	return &sealedPattern{h: h, head: s.Header, foot: s.Footer, rest: p[s.Footer.Parts[sealed.RecordIndex].Offset : len(p)-sealed.FooterSize], size: int64(len(p))}
}

// at makes a copy after a place, with holes for its blocks.
func (t *sealedPattern) at(chapter uint32, after format.Mark, name string) format.SealedFile {
	by := uint64(after.LSN - t.head.First)
	head, foot, rest := t.head, t.foot, append([]byte(nil), t.rest...)
	head.Chapter, head.First, head.End, head.Chain = chapter, head.First+event.LSN(by), head.End+event.LSN(by), after.Chain
	foot.Chapter, foot.First, foot.End, foot.Chain, foot.Before, foot.Epoch = chapter, head.First, head.End, head.Chain, after.Epoch, after.Epoch
	foot.Durable += event.LSN(by)
	foot.Last += chapter
	from := foot.Parts[sealed.RecordIndex].Offset
	for part, row := range map[sealed.Part]int64{sealed.RecordIndex: 56, sealed.BodyIndex: 32} {
		s := &foot.Parts[part]
		rows := rest[s.Offset-from:][:s.Length]
		for at := int64(0); at < s.Length; at += row {
			for _, field := range []int64{0, 32}[:1+row/56] {
				if v := binary.LittleEndian.Uint64(rows[at+field:]); v != 0 {
					binary.LittleEndian.PutUint64(rows[at+field:], v+by)
				}
			}
		}
		s.Sum = sha256.Sum256(rows)
	}
	end := foot.Encode()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteAt(head.Encode(), 0)
	}
	if err == nil {
		_, err = f.WriteAt(append(rest, end...), from)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.h.b.Fatal(err)
	}
	return format.SealedFile{Chapter: chapter, Revision: 1, First: head.First, End: head.End, Epoch: foot.Epoch, Chain: head.Chain, Last: foot.Last, Size: t.size, Footer: sha256.Sum256(end)}
}
