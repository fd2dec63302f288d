package log

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// sealedKind keeps the bytes of a chapter in a sealed file: compressed, in blocks that an index
// finds by address, and not necessarily with all bodies.
type sealedKind struct {
	partition PartitionID
	tag       uint32
	named     format.SealedFile // its entry in the manifest
	blocks    *blockCache
}

func (k *sealedKind) path() string {
	return filepath.Join("sealed", format.SealedName(k.named.Chapter, k.named.Revision))
}

// file opens the file and compares its ends with its manifest entry.
func (k *sealedKind) file(files opener) (disk.File, *sealed.File, error) {
	f, err := files(k.path())
	if err != nil {
		return nil, nil, err
	}
	size, err := f.Size()
	var s *sealed.File
	if err == nil {
		s, err = sealed.Open(f, size)
	}
	if err == nil {
		err = k.check(s, size)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, s, nil
}

func (k *sealedKind) check(s *sealed.File, size int64) error {
	h, f, n := &s.Header, &s.Footer, &k.named
	want := sealed.Header{Partition: k.partition, Tag: k.tag, Chapter: n.Chapter, Revision: n.Revision, First: n.First, End: n.End, Chain: n.Chain, Alone: h.Alone}
	switch {
	case *h != want || f.Last != n.Last || f.Epoch != n.Epoch:
		return fmt.Errorf("%w: place differs from the manifest", format.ErrDamaged)
	case s.Digest != n.Footer || size != n.Size:
		return fmt.Errorf("%w: not the file that the manifest names", format.ErrDamaged)
	}
	return nil
}

// open implements [kind].
func (k *sealedKind) open(files opener) (content, error) {
	f, s, err := k.file(files)
	if err != nil {
		return nil, err
	}
	return &sealedContent{kind: k, file: f, sealed: s}, nil
}

// sealedContent is the content of an open sealed file.
type sealedContent struct {
	kind   *sealedKind
	file   disk.File
	sealed *sealed.File
	// of records and of bodies, read when first needed: most queries need nothing from most files
	parts [2]atomic.Pointer[[]sealed.Block]
}

// part returns the index of the blocks of records or bodies.
func (c *sealedContent) part(of sealed.Part) ([]sealed.Block, error) {
	if known := c.parts[of].Load(); known != nil {
		return *known, nil
	}
	list, err := c.sealed.Index(of)
	if err == nil {
		c.parts[of].Store(&list)
	}
	return list, err
}

// Size implements [content].
func (c *sealedContent) Size() (int64, error) {
	return int64(c.sealed.Footer.End - c.sealed.Footer.First), nil
}

// Close implements [content].
func (c *sealedContent) Close() error { return c.file.Close() }

// errPartEnds ends a read where bytes of the other part begin.
var errPartEnds = errors.New("log: the part of a sealed file ends here")

// ReadAt implements [content]. It reads on within the part of the first byte: a reader of records
// reads no bodies, and a reader of bodies no records.
func (c *sealedContent) ReadAt(dst []byte, off int64) (int, error) {
	return c.read(dst, off, sealed.Records, sealed.Bodies)
}

// ReadBody implements [bodies].
func (c *sealedContent) ReadBody(dst []byte, off int64) (int, error) {
	return c.read(dst, off, sealed.Bodies, sealed.Records)
}

// read looks for the first byte in one part, and then in the other.
func (c *sealedContent) read(dst []byte, off int64, likely, other sealed.Part) (int, error) {
	at := c.sealed.Footer.First + event.LSN(off)
	if at >= c.sealed.Footer.End {
		return 0, io.EOF
	}
	for _, part := range [...]sealed.Part{likely, other} {
		n, err := c.readPart(dst, at, part)
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, fmt.Errorf("log: address %d: %w", at, event.ErrErased)
}

// readPart reads contiguous addresses from a part. It returns no error if the part does not have
// the first one.
func (c *sealedContent) readPart(dst []byte, at event.LSN, part sealed.Part) (n int, err error) {
	blocks, err := c.part(part)
	if err != nil {
		return 0, err
	}
	for i := sealed.Holding(blocks, at); i >= 0 && i < len(blocks) && n < len(dst) && (n == 0 || blocks[i].First == at); i++ {
		d, err := c.block(part, blocks, i)
		if err != nil {
			return n, err
		}
		p := d.At(at)
		if p == nil {
			return n, nil
		}
		k := copy(dst[n:], p)
		n, at = n+k, at+event.LSN(k)
		if k == len(p) && i+1 < len(blocks) && blocks[i+1].First != at {
			break
		}
	}
	switch {
	case n == len(dst):
		return n, nil
	case n == 0:
		return 0, nil
	case part == sealed.Bodies && at < c.sealed.Footer.End && !c.has(sealed.Records, at):
		return n, fmt.Errorf("log: address %d: %w", at, event.ErrErased)
	}
	return n, errPartEnds
}

// has reports whether a part has the byte at an address. A part that cannot be read may have it.
func (c *sealedContent) has(part sealed.Part, at event.LSN) bool {
	blocks, err := c.part(part)
	if err != nil {
		return true
	}
	i := sealed.Holding(blocks, at)
	if i < 0 {
		return false
	}
	d, err := c.block(part, blocks, i)
	return err != nil || d.At(at) != nil
}

// block returns a block of a part, decompressed.
func (c *sealedContent) block(part sealed.Part, blocks []sealed.Block, i int) (*sealed.Data, error) {
	k := blockKey{c.kind.partition, c.kind.named.Chapter, c.kind.named.Revision, part, i}
	return c.kind.blocks.load(k, int(blocks[i].Raw), func() (*sealed.Data, error) {
		d, err := c.sealed.Read(blocks, i)
		if errors.Is(err, sealed.ErrBlock) {
			err = fmt.Errorf("%w: %w", ErrChecksum, err)
		}
		return d, err
	})
}

// frameStart returns the LSN of a frame at or before an address, from which a reader can continue.
// Without an index that is the first frame.
func (c *sealedContent) frameStart(at event.LSN) event.LSN {
	blocks, err := c.part(sealed.Records)
	for i := sealed.Holding(blocks, at); i >= 0 && err == nil; i-- {
		if f := blocks[i].Frame; f != 0 && f <= at {
			return f
		}
	}
	return c.sealed.Footer.First
}
