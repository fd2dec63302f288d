package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// archive is a second kind of segment: it keeps the parts of frames in memory, each by itself, and
// not all bodies.
type archive struct {
	name  string
	parts []part // in the order of their places
}

// part is a frame's header, its bodies or its records.
type part struct {
	at     int64 // from the segment's first address
	bytes  []byte
	erased [][2]int64 // pairs of start and end, ordered
}

func (c *archive) path() string { return c.name }

func (c *archive) open(opener) (content, error) { return c, nil }

func (c *archive) Close() error { return nil }

func (c *archive) Size() (int64, error) {
	last := c.parts[len(c.parts)-1]
	return last.at + int64(len(last.bytes)), nil
}

var errPart = errors.New("the part ends here")

func (c *archive) ReadAt(dst []byte, off int64) (int, error) {
	for _, p := range c.parts {
		if off < p.at || off >= p.at+int64(len(p.bytes)) {
			continue
		}
		end, err := p.at+int64(len(p.bytes)), errPart
		for _, e := range p.erased {
			if e[1] > off {
				end, err = max(e[0], off), fmt.Errorf("archive: %w", event.ErrErased)
				break
			}
		}
		n := copy(dst, p.bytes[off-p.at:end-p.at])
		if n == len(dst) {
			err = nil
		}
		return n, err
	}
	return 0, io.EOF
}

// moveDown puts a segment of the second kind in the place of one of the first. Bodies are kept if
// keep says so.
func moveDown(t *testing.T, p *partition, i int, bodies []event.Blob, keep func(event.Blob) bool) {
	t.Helper()
	s := p.segments[i]
	file, err := readFile(p.store.fs, filepath.Join(p.dir, s.kind.path()), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	c := &archive{name: "archive of " + s.kind.path()}
	for at := int64(0); s.base+event.LSN(at) < s.end; {
		var h format.Header
		if ok, err := h.Decode(file[at:]); !ok || err != nil {
			t.Fatalf("%+v; want ok", err)
		}
		middle := part{at: at + format.BodiesAt, bytes: file[at+format.BodiesAt : at+h.RecordsAt()]}
		for _, b := range bodies {
			from := int64(b.Position) - int64(s.base)
			if from >= at && from < at+h.Entry() && !keep(b) {
				middle.erased = append(middle.erased, [2]int64{from, from + int64(b.Size)})
				clear(file[from : from+int64(b.Size)])
			}
		}
		c.parts = append(c.parts, part{at: at, bytes: file[at : at+format.BodiesAt]}, middle, part{at: at + h.RecordsAt(), bytes: file[at+h.RecordsAt() : at+h.Entry()]})
		at += h.Entry()
	}
	if err := p.store.fs.Remove(filepath.Join(p.dir, s.kind.path())); err != nil {
		t.Fatal(err)
	}
	p.segments[i] = &segment{chapter: s.chapter, base: s.base, end: s.end, kind: c}
}

// stocked is a partition of several segments, and the bodies in it.
func stocked(t *testing.T, dir string) (Store, *partition, []event.Blob) {
	t.Helper()
	o := goldenOptions(disk.OS{})
	o.SegmentBytes = 2000
	s, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	part, err := s.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := part.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var bodies []event.Blob
	for i := range 20 {
		var sent []*event.MessageEnqueued
		for k := range 3 {
			m := &event.MessageEnqueued{Sequence: event.SequenceNumber(3*i + k + 1), Body: event.Blob{Data: bytes.Repeat([]byte{byte(i), byte(k)}, 40+i)}}
			w.Batch().AppendRecord(event.Time(i), []event.Event{m}, Durable)
			sent = append(sent, m)
		}
		w.Append(w.Batch())
		for w.(ManualWriter).Work() {
		}
		for _, m := range sent {
			bodies = append(bodies, m.Body)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return s, part.(*partition), bodies
}

func text(f Frame) string { return fmt.Sprintf("%+v", f) }

func readAll(t *testing.T, p Reader, from event.LSN) (all []string) {
	t.Helper()
	for f, err := range p.Read(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text(f))
	}
	return all
}

// A segment of another kind is read as one of the hot kind is, and says so where a body is gone.
func TestSecondKind(t *testing.T) {
	t.Parallel()
	_, p, bodies := stocked(t, t.TempDir())
	want := map[event.Position][]byte{}
	for _, b := range bodies {
		var err error
		if want[b.Position], err = p.ReadBlob(b, nil); err != nil {
			t.Fatal(err)
		}
	}
	before, half := readAll(t, p, 0), readAll(t, p, event.LSN(bodies[30].Position))
	n := 0
	keep := func(b event.Blob) bool { n++; return n%5 != 2 }
	erased := map[event.Position]bool{}
	if len(p.segments) < 4 {
		t.Fatalf("%d segments", len(p.segments))
	}
	for i := range len(p.segments) - 2 {
		moveDown(t, p, i, bodies, func(b event.Blob) bool {
			erased[b.Position] = !keep(b)
			return !erased[b.Position]
		})
	}
	gone := 0
	for _, b := range bodies {
		got, err := p.ReadBlob(b, []byte("x"))
		switch {
		case erased[b.Position]:
			gone++
			if !errors.Is(err, event.ErrErased) || errors.Is(err, ErrChecksum) || string(got) != "x" {
				t.Errorf("erased body at %d: %q, %v", b.Position, got, err)
			}
		case err != nil || !bytes.Equal(got[1:], want[b.Position]):
			t.Errorf("body at %d: %q, %v", b.Position, got, err)
		}
		ahead := make([]byte, 4096)
		if n, err := p.ReadInto(b, ahead); errors.Is(err, event.ErrErased) != erased[b.Position] || err == nil && !bytes.Equal(ahead[:min(n, int(b.Size))], want[b.Position]) {
			t.Errorf("body at %d, read ahead: %d bytes, %v", b.Position, n, err)
		}
	}
	if gone < 5 || gone > 20 {
		t.Errorf("%d bodies are gone", gone)
	}
	if after := readAll(t, p, 0); !slices.Equal(after, before) {
		t.Errorf("frames are\n%s\nand were\n%s", after, before)
	}
	if after := readAll(t, p, event.LSN(bodies[30].Position)); !slices.Equal(after, half) {
		t.Errorf("frames are\n%s\nand were\n%s", after, half)
	}
	// of the second frame
	at := p.segments[0].base + event.LSN(p.segments[0].kind.(*archive).parts[3].at)
	if err := p.SaveCheckpoint(at, func(w io.Writer) error { _, err := io.WriteString(w, "state"); return err }); err != nil {
		t.Errorf("a checkpoint in a segment of the second kind: %v", err)
	}
}

// walkOver reads the segments of a partition as recovery and a survey do.
func walkOver(t *testing.T, p *partition, report func(*CorruptError) error) (*recovery, error) {
	t.Helper()
	r := &recovery{files: p.store.filesOf(p.id), report: report}
	r.begin(make([]byte, 4096))
	r.walk.scan.LSN, r.walk.scan.Watch, r.out.first = p.first, map[event.LSN]format.Passed{}, p.first
	if err := r.enter(p.manifest.Chapters[0], true); err != nil {
		t.Fatal(err)
	}
	for i, s := range slices.Clone(p.segments) {
		seg := &segment{chapter: s.chapter, base: r.walk.scan.LSN, end: r.walk.scan.LSN, kind: s.kind}
		r.out.segments = append(r.out.segments, seg)
		if err := r.walk.segment(t.Context(), seg, i == len(p.segments)-1); err != nil {
			return r, err
		}
	}
	r.conclude(nil)
	return r, nil
}

// A walk skips erased bytes, which are not damage, but nothing else.
func TestWalkSecondKind(t *testing.T) {
	t.Parallel()
	_, p, bodies := stocked(t, t.TempDir())
	whole, err := walkOver(t, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	moveDown(t, p, 0, bodies, func(b event.Blob) bool {
		return b.Position != bodies[1].Position && b.Position != bodies[3].Position && b.Position != bodies[4].Position
	})
	r, err := walkOver(t, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if is, was := &r.walk.scan, &whole.walk.scan; is.LSN != was.LSN || is.Chain != was.Chain || is.Frames != was.Frames || is.Records != was.Records {
		t.Errorf("walk ends at %d with %d frames, %d records, and ended at %d with %d and %d",
			is.LSN, is.Frames, is.Records, was.LSN, was.Frames, was.Records)
	}
	for i, s := range r.out.segments {
		if want := map[int]uint64{0: 2}[i]; s.erased != want || whole.out.segments[i].erased != 0 {
			t.Errorf("segment %d: %d frames without all bodies, want %d; before it was %d", i, s.erased, want, whole.out.segments[i].erased)
		}
	}
	c := p.segments[0].kind.(*archive)
	for i, name := range []string{"header", "kept body", "records"} {
		flip := &c.parts[3*3+i].bytes[9] // the third frame with messages is whole
		*flip ^= 1
		if _, err := walkOver(t, p, nil); !errors.As(err, new(*CorruptError)) {
			t.Errorf("damaged %s: %v", name, err)
		}
		var places []*CorruptError
		if _, err := walkOver(t, p, func(c *CorruptError) error { places = append(places, c); return nil }); err != nil || len(places) != 1 || places[0].File != filepath.Join("partitions/00", c.name) {
			t.Errorf("damaged %s: a survey finds %v, %v", name, places, err)
		}
		*flip ^= 1
	}
	flip := &c.parts[3*2+2].bytes[9] // records of a frame whose bodies are gone
	*flip ^= 1
	if _, err := walkOver(t, p, nil); !errors.As(err, new(*CorruptError)) {
		t.Errorf("damaged records beside erased bodies: %v", err)
	}
}
