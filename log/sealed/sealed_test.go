package sealed

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// frames are the entries of a chapter, in order, and their bytes.
type frames struct {
	heads []format.Header
	bytes []byte
}

const first = event.LSN(1000 * 8)

func (f *frames) end() event.LSN { return first + event.LSN(len(f.bytes)) }

// body is the frame that a record is written into.
type body struct {
	base event.LSN
	data []byte
}

func (b *body) Base() event.Position { return event.Position(b.base) }

func (b *body) AppendBlob(head, tail []byte) (event.Position, uint32) {
	from := len(b.data)
	b.data = append(append(b.data, head...), tail...)
	return event.Position(b.base) + format.BodiesAt + event.Position(from), event.Sum(b.data[from:])
}

// add adds a frame of a kind with these records.
func (f *frames) add(kind format.Kind, boot string, records ...event.Record) {
	h := format.Header{
		Kind: kind, Level: format.Durable, Partition: 3, Chapter: 7, Epoch: 5, LSN: f.end(), Chain: 77, Tag: 9, Count: uint32(len(records)),
		Durable: f.end() - event.LSN(len(f.bytes)%3*8),
	}
	if n := len(f.heads); n > 0 {
		h.Chain = f.heads[n-1].Sum
	}
	b := &body{base: h.LSN}
	p := []byte(boot)
	for _, rec := range records {
		p = event.AppendRecord(p, b, rec.At, rec.Events)
	}
	if len(records) > 0 {
		h.First, h.Span = records[0].At, format.SpanOf(records[0].At, records[len(records)-1].At)
	}
	h.Bodies, h.Records = uint32(len(b.data)), uint32(len(p))
	h.Length = uint32(format.FrameLength(len(b.data), len(p)))
	entry := make([]byte, h.Entry())
	copy(entry[format.BodiesAt:], b.data)
	copy(entry[h.RecordsAt():], p)
	h.Seal(entry)
	f.heads, f.bytes = append(f.heads, h), append(f.bytes, entry...)
}

func enqueued(entity event.EntityID, n int, id string, body []byte) *event.MessageEnqueued {
	m := &event.MessageEnqueued{Sequence: event.SequenceNumber(n), MessageID: []byte(id), Body: event.Blob{Data: body}}
	m.Slice.Entity = entity
	return m
}

// chapter is frames of every shape: with bodies and without, longer than a block in either part, of
// several records, of other kinds.
func chapter(rng *rand.Rand) *frames {
	f := &frames{}
	f.add(format.EpochStart, "boot-5")
	n := 0
	for i := range 120 {
		var records []event.Record
		for range 1 + rng.IntN(3) {
			var events []event.Event
			for range 1 + rng.IntN(4) {
				n++
				p := make([]byte, rng.IntN(3000))
				for k := range p {
					p[k] = byte(rng.IntN(1 + i))
				}
				events = append(events, enqueued(event.EntityID(1+n%3), n, fmt.Sprint("id-", n/2), p))
			}
			done := &event.MessageCompleted{Sequence: event.SequenceNumber(1 + rng.IntN(n))}
			done.Slice = event.Slice{Entity: 2, Partition: 1}
			records = append(records, event.Record{At: event.Time(100 + i), Events: append(events, done)})
		}
		f.add(format.Events, "", records...)
		switch i {
		case 40:
			f.add(format.Skip, "")
		case 60:
			f.add(format.Events, "", event.Record{At: 160, Events: []event.Event{enqueued(1, 5000, "long", make([]byte, 300_000))}})
		case 80:
			deleted := &event.MessagesBatchDeleted{Before: 8}
			for k := range 60_000 {
				deleted.Sequences = append(deleted.Sequences, event.SequenceNumber(7000+300*k))
			}
			f.add(format.Events, "", event.Record{At: 20, Events: []event.Event{deleted, &event.OriginDefined{ID: 44}}})
		}
	}
	return f
}

// seal writes a file of the frames. Bodies at which keep says no are left out.
func (f *frames) seal(t testing.TB, chunk int, keep func(at event.LSN) bool) ([]byte, Footer) {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Partition: 3, Tag: 9, Chapter: 7, Revision: 1, First: first, End: f.end(), Chain: 77}, 4, "before")
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.heads {
		h := &f.heads[i]
		entry := f.bytes[h.LSN-first:][:h.Entry()]
		if err := w.Frame(h, entry[:format.BodiesAt], entry[h.RecordsAt():]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.EndRecords(); err != nil {
		t.Fatal(err)
	}
	for i := range f.heads {
		h := &f.heads[i]
		at := h.LSN + format.BodiesAt
		for p := range slices.Chunk(f.bytes[at-first:][:h.Bodies], chunk) {
			if keep == nil || keep(at) {
				if err := w.Bodies(at, p); err != nil {
					t.Fatal(err)
				}
			}
			at += event.LSN(len(p))
		}
	}
	foot, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), foot
}

// row reads all bytes back, with missing ones as zeroes, and returns the number of missing bytes.
func row(t testing.TB, f *File) (p []byte, missing int) {
	t.Helper()
	p = make([]byte, f.Footer.End-f.Footer.First)
	there := make([]bool, len(p))
	for _, part := range []Part{Records, Bodies} {
		blocks, err := f.Index(part)
		if err != nil {
			t.Fatal(err)
		}
		for i := range blocks {
			d, err := f.Read(blocks, i)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range d.stretches {
				if got := d.At(s.from + event.LSN(s.n/2)); len(got) != s.n-s.n/2 {
					t.Fatalf("%d bytes in the middle of a stretch of %d", len(got), s.n)
				}
				if Holding(blocks, s.from) != i || d.At(s.from+event.LSN(s.n)) != nil && len(d.stretches) == 1 {
					t.Fatalf("block %d is not that of %d", i, s.from)
				}
				copy(p[s.from-first:], d.At(s.from))
				for k := range s.n {
					if there[int(s.from-first)+k] {
						t.Fatalf("address %d is there twice", int(s.from)+k)
					}
					there[int(s.from-first)+k] = true
				}
			}
		}
	}
	for _, ok := range there {
		if !ok {
			missing++
		}
	}
	return p, missing
}

func open(t testing.TB, p []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Verify(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	return f
}

// A file has every byte of its chapter, lists its frames, and does not depend on how its bodies are
// passed.
func TestFile(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		c := chapter(rand.New(rand.NewPCG(seed, 16)))
		p, foot := c.seal(t, 1<<20, nil)
		if other, _ := c.seal(t, 777, nil); !bytes.Equal(p, other) {
			t.Fatal("the file depends on how its bodies come")
		}
		f := open(t, p)
		if f.Footer != foot {
			t.Fatalf("footer is %+v, want %+v", f.Footer, foot)
		}
		got, missing := row(t, f)
		if !bytes.Equal(got, c.bytes) || missing > 0 {
			t.Fatalf("%d bytes are missing, or others are different", missing)
		}
		last := c.heads[len(c.heads)-1]
		records := uint64(0)
		for _, h := range c.heads {
			records += uint64(h.Count)
		}
		want := Footer{
			Chapter: 7, Revision: 1, First: first, End: c.end(), Chain: 77, Last: last.Sum, Before: 4, Epoch: 5, Durable: foot.Durable,
			Frames: uint64(len(c.heads)), Records: records, Events: foot.Events, FirstTime: 100, Lowest: 20, Highest: 219, Newest: 219,
			BodyBytes: foot.BodyBytes, ContentsSize: foot.ContentsSize, Boot: "boot-5", Parts: foot.Parts,
		}
		if foot != want {
			t.Errorf("footer is %+v\nwant %+v", foot, want)
		}
	}
}

// What is left out of the bodies is a gap, and nothing else is.
func TestErased(t *testing.T) {
	t.Parallel()
	c := chapter(rand.New(rand.NewPCG(3, 16)))
	gone := map[event.LSN]bool{}
	p, _ := c.seal(t, 500, func(at event.LSN) bool {
		gone[at] = at%5 == 3
		return !gone[at]
	})
	_, missing := row(t, open(t, p))
	if missing < 20_000 {
		t.Errorf("%d bytes are missing", missing)
	}
}

// The indexes lead to every event, and to blocks that have it. partsOfContents compares partial
// reads of the contents with the whole.
func partsOfContents(t *testing.T, f *File, contents *Contents) {
	t.Helper()
	if kinds, err := f.Kinds(); err != nil || !slices.Equal(kinds, contents.Kinds) {
		t.Errorf("kinds are %+v, %v; the contents have %+v", kinds, err, contents.Kinds)
	}
	for i := range contents.Slices {
		of := contents.Slices[i].Slice
		about, err := f.About(of)
		one, _ := about.Of(of)
		if err != nil || !slices.Equal(one.Blocks, contents.Slices[i].Blocks) || len(about.Slices) != len(contents.Slices) {
			t.Errorf("about %s: %+v, %v", of, one, err)
		}
	}
}

func TestIndexes(t *testing.T) {
	t.Parallel()
	c := chapter(rand.New(rand.NewPCG(4, 16)))
	p, _ := c.seal(t, 1<<20, nil)
	f := open(t, p)
	blocks, err := f.Index(Records)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := f.IDs()
	if err != nil {
		t.Fatal(err)
	}
	contents, err := f.Contents()
	if err != nil {
		t.Fatal(err)
	}
	if contents.Unlisted || len(contents.Slices) != 5 || len(contents.Kinds) != 4 || !slices.Equal(contents.Origins, []OriginAt{{44, contents.Origins[0].Block}}) {
		t.Fatalf("contents are %+v", contents)
	}
	partsOfContents(t, f, &contents)
	var d event.Decoder
	bytesOf, count := uint64(0), uint64(0)
	for _, h := range c.heads {
		at := h.LSN + event.LSN(h.RecordsAt())
		block := Holding(blocks, at)
		begins := Holding(blocks, h.LSN)
		if b := blocks[begins]; b.Frame > h.LSN || h.Count > 0 && (b.Lowest > h.First || b.Highest < h.Newest()) {
			t.Errorf("block %d with %+v has frame %d of time %d", begins, b, h.LSN, h.First)
		}
		rest := c.bytes[at-first:][:h.Records]
		for range h.Count {
			var rec event.Record
			if rec, rest, err = d.Record(event.Position(h.LSN), [2]uint32{format.BodiesAt, format.BodiesAt + h.Bodies}, rest); err != nil {
				t.Fatal(err)
			}
			for i, ev := range rec.Events {
				count, bytesOf = count+1, bytesOf+uint64(d.Sizes()[i].Record)
				if id := event.MessageIDOf(ev); id != nil {
					list, err := f.Find(id)
					if err != nil || !slices.Contains(list, block) || !slices.Equal(list, ids.Blocks(id)) {
						t.Errorf("message-id %s is in block %d, the index says %v, and what reads it piece by piece %v, %v", id, block, ids.Blocks(id), list, err)
					}
				}
				event.Named(ev, func(s event.Slice, n event.SequenceNumber) {
					of, ok := contents.Of(s)
					k := slices.IndexFunc(of.Blocks, func(b SliceAt) bool { return b.Block == block })
					if !ok || k < 0 || n > 0 && (n < of.Blocks[k].Lowest || n > of.Blocks[k].Highest) {
						t.Errorf("%d of %s is in block %d, and the index says %+v", n, s, block, of.Blocks)
					}
				})
			}
		}
	}
	sum := KindCount{}
	for _, k := range contents.Kinds {
		sum.Events, sum.Bytes = sum.Events+k.Events, sum.Bytes+k.Bytes
	}
	of := SliceCount{}
	for _, s := range contents.Slices {
		of.Events, of.Bytes, of.BodyBytes = of.Events+s.Events, of.Bytes+s.Bytes, of.BodyBytes+s.BodyBytes
	}
	if sum.Events != count || sum.Bytes != bytesOf || of.Events != count || of.Bytes != bytesOf || f.Footer.Events != count || of.BodyBytes != f.Footer.BodyBytes {
		t.Errorf("%d events of %d bytes, by kind %+v, by slice %+v, footer %d", count, bytesOf, sum, of, f.Footer.Events)
	}
	if ids.Blocks([]byte("no such id")) != nil {
		t.Error("an id that is not there is found")
	}
}

// Contents that would be too long leave out the blocks of slices.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	var c Contents
	for i := range 40 {
		s := SliceCount{Slice: event.Slice{Entity: event.EntityID(i)}, Events: 5}
		for b := range 100_000 {
			s.Blocks = append(s.Blocks, SliceAt{b, event.SequenceNumber(1 << 20 * b), event.SequenceNumber(1<<20*b + 9999)})
		}
		c.Slices = append(c.Slices, s)
	}
	p := c.encode()
	back, err := DecodeContents(p, 100_000)
	if err != nil || !back.Unlisted || len(back.Slices) != 40 || back.Slices[39].Events != 5 || len(p) > MaxContents {
		t.Fatalf("%d bytes, %v: %+v", len(p), err, back.Unlisted)
	}
	c.Slices = c.Slices[:10]
	if back, err = DecodeContents(c.encode(), 100_000); err != nil || back.Unlisted || !slices.Equal(back.Slices[9].Blocks, c.Slices[9].Blocks) {
		t.Fatalf("%+v; want !back.Unlisted && slices.Equal(back.Slices[9].Blocks, c.Slices[9].Blocks)", err)
	}
}

// Whichever byte of a file is changed, an error says so before the data is used.
func TestFlips(t *testing.T) {
	t.Parallel()
	c := chapter(rand.New(rand.NewPCG(5, 16)))
	p, _ := c.seal(t, 1<<20, nil)
	rng := rand.New(rand.NewPCG(6, 16))
	digest := open(t, p).Digest
	for range 400 {
		at, mask := rng.IntN(len(p)), byte(1+rng.IntN(255))
		if rng.IntN(2) == 0 { // half of them in the part that a start reads
			if at = rng.IntN(HeaderSize + FooterSize); at >= HeaderSize {
				at += len(p) - HeaderSize - FooterSize
			}
		}
		flip(t, p, digest, at, mask)
	}
}

// flip changes a byte of a file for a moment: either that is found, or its digest is another.
func flip(t *testing.T, p []byte, digest [sha256.Size]byte, at int, mask byte) {
	t.Helper()
	p[at] ^= mask
	f, err := Open(bytes.NewReader(p), int64(len(p)))
	if err == nil {
		_, err = f.Verify(make([]byte, 4096))
		err = cmp.Or(err, differs(f.Digest != digest))
	}
	p[at] ^= mask
	if !errors.Is(err, format.ErrDamaged) && !errors.Is(err, errDiffers) {
		t.Errorf("byte %d with %#x: %v", at, mask, err)
	}
}

var errDiffers = errors.New("the digest is another")

func differs(yes bool) error {
	if yes {
		return errDiffers
	}
	return nil
}

// FuzzEnds: a decoded header or footer encodes to the same bytes.
func FuzzEnds(f *testing.F) {
	p, _ := chapter(rand.New(rand.NewPCG(1, 16))).seal(f, 1<<20, nil)
	f.Add(p[:HeaderSize], int64(0))
	f.Add(p[len(p)-FooterSize:], int64(len(p)))
	p, _, _, _ = bodiesFile(f, rand.New(rand.NewPCG(1, 71)), 5)
	f.Add(p[:HeaderSize], int64(0))
	f.Add(p[len(p)-FooterSize:], int64(len(p)))
	f.Fuzz(func(t *testing.T, p []byte, size int64) {
		for _, n := range []int{HeaderSize, FooterSize} { // checksums are no obstacle
			if len(p) >= n {
				p := p[:n]
				le.PutUint32(p[n-4:], event.Sum(p[:n-4]))
				if h, err := DecodeHeader(p); err == nil && !bytes.Equal(h.Encode(), p) {
					t.Fatal("header")
				}
				if foot, err := DecodeFooter(p, size); err == nil && !bytes.Equal(foot.Encode(), p) {
					t.Fatal("footer")
				}
			}
		}
		Open(bytes.NewReader(p), int64(len(p)))
	})
}

// FuzzBlock: any bytes, compressed or not, are a block or are refused; a block has its bytes at its
// addresses, in order.
func FuzzBlock(f *testing.F) {
	p, _ := chapter(rand.New(rand.NewPCG(1, 16))).seal(f, 1<<20, nil)
	file, err := Open(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		f.Fatal(err)
	}
	blocks, err := file.Index(Records)
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range blocks[:3] {
		stored := p[b.Offset:][:b.Stored]
		raw, err := decompress(stored, int(b.Raw))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, uint64(b.First), uint64(file.Footer.End))
		f.Add(stored, uint64(b.First), uint64(file.Footer.End))
	}
	f.Fuzz(func(t *testing.T, p []byte, from, limit uint64) {
		if limit > uint64(maxAddress) || from >= limit {
			return
		}
		if d, err := decodeBlock(p, event.LSN(from), event.LSN(limit)); err == nil {
			for i, s := range d.stretches {
				if !bytes.Equal(d.At(s.from), d.bytes[s.at:s.at+s.n]) || s.from+event.LSN(s.n) > event.LSN(limit) || i > 0 && s.from <= d.stretches[i-1].from {
					t.Fatalf("stretch %d of %v", i, d.stretches)
				}
			}
		}
		b := Block{First: event.LSN(from), Stored: uint32(len(p)), Raw: MaxBlock, Sum: event.Sum(p)}
		b.Decode(p, event.LSN(limit))
	})
}

// FuzzIndexes: rows and contents that decode encode to the same bytes, and no number of entries is
// believed unchecked.
func FuzzIndexes(f *testing.F) {
	p, foot := chapter(rand.New(rand.NewPCG(1, 16))).seal(f, 1<<20, nil)
	for _, part := range []Part{RecordIndex, BodyIndex, IDs, Summary} {
		s := foot.Parts[part]
		f.Add(p[s.Offset:][:s.Length])
	}
	raw, err := decompress(p[foot.Parts[Summary].Offset:][:foot.Parts[Summary].Length], int(foot.ContentsSize))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, part := range []Part{RecordIndex, BodyIndex} {
			list, err := DecodeIndex(p, part, foot.Parts[part-RecordIndex], foot.First, foot.End)
			if err != nil {
				continue
			}
			var again []byte
			for i := range list {
				again = list[i].append(again, part)
			}
			if !bytes.Equal(again, p) {
				t.Fatalf("%+v; want bytes.Equal(again, p)", part)
			}
		}
		if pages, err := decodePages(p, foot.Parts[IDs].Length); err == nil && pages != nil && int64(pages.len()) != (foot.Parts[IDs].Length+pageSize-1)/pageSize {
			t.Fatalf("%d pages", pages.len())
		}
		if table, err := DecodeIDs(p, 100); err == nil && table.Len() > 0 {
			table.Blocks([]byte("id-1"))
		}
		if c, err := DecodeContents(p, 100); err == nil {
			back, err := DecodeContents(c.append(nil), 100)
			if err != nil || len(back.Slices) != len(c.Slices) || len(back.Origins) != len(c.Origins) {
				t.Fatalf("%+v; want len(back.Slices) == len(c.Slices) && len(back.Origins) == len(c.Origins)", err)
			}
		}
		if len(p) >= 4 {
			decompress(p, int(binary.LittleEndian.Uint32(p)%MaxBlock))
		}
	})
}
