package sealed

import (
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Extent is a range of contiguous addresses.
type Extent struct{ From, To event.LSN }

// reviser writes another revision of a file, with all of it except some of its bodies.
type reviser struct {
	from   *File
	blocks []Block // of bodies
	out    output
	bodies builder
	footer Footer
	keep   []Extent // not reached yet
	kept   uint64   // bytes
}

// Revise writes another revision, under its number, and returns its footer. Of the bodies it keeps
// those in the extents of keep, which are in order and do not overlap. erased is the number of
// frames that lack some of their bodies afterwards. Revise compares the unchanged parts with their
// digests while it copies them. Errors are those of the file and of w.
func (f *File) Revise(w io.Writer, revision uint32, keep []Extent, erased uint64) (Footer, error) {
	r := reviser{from: f, out: output{w: w}, footer: f.Footer, keep: keep}
	r.bodies.out = &r.out
	if err := r.write(revision, erased); err != nil {
		return Footer{}, err
	}
	return r.footer, nil
}

func (r *reviser) write(revision uint32, erased uint64) error {
	head := r.from.Header
	head.Revision, r.footer.Revision, r.footer.ErasedFrames = revision, revision, erased
	err := r.out.write(head.Encode())
	if err == nil {
		err = r.copyPart(Records)
	}
	if err == nil {
		err = r.rewrite()
	}
	if err != nil {
		return err
	}
	var index []byte
	for i := range r.bodies.blocks {
		index = r.bodies.blocks[i].append(index, BodyIndex)
	}
	if err := r.copyPart(RecordIndex); err != nil {
		return err
	}
	at := r.out.begin()
	if err := r.out.write(index); err != nil {
		return err
	}
	r.footer.Parts[BodyIndex] = r.out.end(at)
	for _, p := range []Part{IDs, Summary} {
		if err := r.copyPart(p); err != nil {
			return err
		}
	}
	r.footer.ErasedBytes = r.footer.BodyBytes - r.kept
	return r.out.write(r.footer.Encode())
}

// copyPart copies a part as it is stored.
func (r *reviser) copyPart(p Part) error {
	was := r.from.Footer.Parts[p]
	at := r.out.begin()
	_, err := io.Copy(outputWriter{&r.out}, io.NewSectionReader(r.from.r, was.Offset, was.Length))
	if err != nil {
		return err
	}
	s := r.out.end(at)
	if s.Length != was.Length || s.Sum != was.Sum {
		return damaged("%s: digest", p)
	}
	r.footer.Parts[p] = s
	return nil
}

// outputWriter makes an output an [io.Writer].
type outputWriter struct{ *output }

func (w outputWriter) Write(p []byte) (int, error) {
	if err := w.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// rewrite writes the blocks of bodies: unchanged if a block is kept whole, rebuilt if only a part
// of it is.
func (r *reviser) rewrite() error {
	var err error
	if r.blocks, err = r.from.Index(Bodies); err != nil {
		return err
	}
	at := r.out.begin()
	for i := range r.blocks {
		limit := r.footer.End
		if i+1 < len(r.blocks) {
			limit = r.blocks[i+1].First
		}
		for len(r.keep) > 0 && r.keep[0].To <= r.blocks[i].First {
			r.keep = r.keep[1:]
		}
		if len(r.keep) == 0 || r.keep[0].From >= limit {
			continue
		}
		if err := r.block(i); err != nil {
			return err
		}
	}
	if err := r.bodies.flush(); err != nil {
		return err
	}
	r.footer.Parts[Bodies] = r.out.end(at)
	return nil
}

// block writes the kept bytes of a block.
func (r *reviser) block(i int) error {
	b := r.blocks[i]
	d, err := r.from.Read(r.blocks, i)
	if err != nil {
		return err
	}
	var kept []Extent
	size, all := 0, 0
	for _, s := range d.stretches {
		all += s.n
		end := s.from + event.LSN(s.n)
		for _, k := range r.keep {
			if k.From >= end {
				break
			}
			if from, to := max(k.From, s.from), min(k.To, end); from < to {
				kept = append(kept, Extent{from, to})
				size += int(to - from)
			}
		}
		for len(r.keep) > 0 && r.keep[0].To <= end {
			r.keep = r.keep[1:]
		}
	}
	r.kept += uint64(size)
	if size == all {
		return r.copyBlock(&b)
	}
	for _, k := range kept {
		p := d.At(k.From)
		if _, err := r.bodies.add(k.From, p[:k.To-k.From]); err != nil {
			return err
		}
	}
	return nil
}

// copyBlock copies a stored block, after comparing its checksum.
func (r *reviser) copyBlock(b *Block) error {
	if err := r.bodies.flush(); err != nil {
		return err
	}
	stored := make([]byte, b.Stored)
	if err := readFull(r.from.r, stored, b.Offset); err != nil {
		return err
	}
	if event.Sum(stored) != b.Sum {
		return fmt.Errorf("block at byte %d: %w", b.Offset, ErrBlock)
	}
	row := *b
	row.Offset = r.out.at
	r.bodies.blocks = append(r.bodies.blocks, row)
	return r.out.write(stored)
}

// Extents returns the addresses at which the file has bodies, by their blocks.
func (f *File) Extents(bodies []Block) (list []Extent, err error) {
	for i := range bodies {
		d, err := f.Read(bodies, i)
		if err != nil {
			return nil, err
		}
		for _, s := range d.stretches {
			if n := len(list) - 1; n >= 0 && list[n].To == s.from {
				list[n].To += event.LSN(s.n)
				continue
			}
			list = append(list, Extent{s.from, s.from + event.LSN(s.n)})
		}
	}
	return list, nil
}
