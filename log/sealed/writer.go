package sealed

import (
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Writer writes a sealed file. It takes the frames of a chapter twice, in order: first all of them
// with Frame, then those with bodies with Bodies, which takes the bodies of a frame in one call or
// several. Errors are those of the underlying writer, and of records that cannot be decoded.
type Writer struct {
	out     output
	header  Header
	footer  Footer
	records builder
	bodies  builder
	what    *Tally
}

// NewWriter begins a file of the chapter in a header. before and boot are the epoch and the boot id
// before the chapter.
func NewWriter(w io.Writer, h Header, before format.Epoch, boot string) (*Writer, error) {
	s := &Writer{out: output{w: w}, header: h, what: NewTally(true), footer: Footer{
		Chapter: h.Chapter, Revision: h.Revision, First: h.First, End: h.End, Chain: h.Chain, Last: h.Chain, Before: before, Epoch: before, Boot: boot,
	}}
	s.records.out, s.bodies.out = &s.out, &s.out
	if err := s.out.write(h.Encode()); err != nil {
		return nil, err
	}
	s.footer.Parts[Records] = s.out.begin()
	return s, nil
}

// Frame adds a frame without its bodies: its prefix and header, and its records and padding. The
// frame was judged to be the next one of its log.
func (s *Writer) Frame(h *format.Header, head, records []byte) error {
	f := &s.footer
	block, err := s.records.add(h.LSN, head)
	if err != nil {
		return err
	}
	in, err := s.records.add(h.LSN+event.LSN(h.RecordsAt()), records)
	if err != nil {
		return err
	}
	f.Frames++
	f.Last, f.Epoch, f.Durable = h.Sum, h.Epoch, max(f.Durable, h.Durable)
	f.BodyBytes += uint64(h.Bodies)
	var lowest, highest event.Time
	switch h.Kind {
	case format.EpochStart:
		if h.Records > maxBoot {
			return fmt.Errorf("frame %d: boot id of %d bytes", h.LSN, h.Records)
		}
		f.Boot = string(records[:h.Records])
	case format.Events:
		bodies := [2]uint32{format.BodiesAt, format.BodiesAt + h.Bodies}
		if lowest, highest, err = s.what.Frame(event.Position(h.LSN), bodies, h.Count, records[:h.Records], in); err != nil {
			return fmt.Errorf("frame %d: %w", h.LSN, err)
		}
	}
	s.records.times(block, h.LSN, lowest, highest)
	return nil
}

// EndRecords ends the first round; Bodies follow.
func (s *Writer) EndRecords() error {
	if err := s.records.flush(); err != nil {
		return err
	}
	s.footer.Parts[Records] = s.out.end(s.footer.Parts[Records])
	s.footer.Parts[Bodies] = s.out.begin()
	return nil
}

// Bodies adds bytes of the bodies of a frame.
func (s *Writer) Bodies(at event.LSN, p []byte) error {
	_, err := s.bodies.add(at, p)
	return err
}

// Erased counts bytes of a frame's bodies that are not kept. Bodies is not called for them.
func (s *Writer) Erased(bytes uint64) {
	s.footer.ErasedBytes += bytes
	s.footer.ErasedFrames++
}

// Close ends the file and returns its footer.
func (s *Writer) Close() (Footer, error) {
	f := &s.footer
	if err := s.bodies.flush(); err != nil {
		return Footer{}, err
	}
	f.Parts[Bodies] = s.out.end(f.Parts[Bodies])
	ids := s.what.idRows()
	c := s.what.Contents()
	contents := c.encode()
	if len(contents) > MaxContents {
		return Footer{}, fmt.Errorf("contents of %d bytes exceed the limit of %d", len(contents), MaxContents)
	}
	f.ContentsSize = uint64(len(contents))
	f.Records, f.Events = s.what.Records, s.what.Events
	f.FirstTime, f.Lowest, f.Highest, f.Newest = s.what.FirstTime, s.what.Lowest, s.what.Highest, s.what.Newest
	rows := func(b *builder, part Part) (p []byte) {
		for i := range b.blocks {
			p = b.blocks[i].append(p, part)
		}
		return p
	}
	for _, part := range []struct {
		Part
		bytes []byte
	}{
		{RecordIndex, rows(&s.records, RecordIndex)}, {BodyIndex, rows(&s.bodies, BodyIndex)}, {IDs, ids}, {Summary, append(compress(nil, contents), encodePages(ids)...)},
	} {
		at := s.out.begin()
		if err := s.out.write(part.bytes); err != nil {
			return Footer{}, err
		}
		f.Parts[part.Part] = s.out.end(at)
	}
	return *f, s.out.write(f.Encode())
}
