package sealed

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// File is a sealed file opened for reading. Its methods may be called concurrently.
type File struct {
	Header Header
	Footer Footer
	Digest [sha256.Size]byte // of the footer
	r      io.ReaderAt
}

// Open reads the header and the footer of a file of a given size. Errors about its contents wrap
// [format.ErrDamaged] or [format.ErrNewer].
func Open(r io.ReaderAt, size int64) (*File, error) {
	if size < HeaderSize+FooterSize {
		return nil, damaged("%d bytes are less than a sealed file", size)
	}
	f := &File{r: r}
	head, foot := make([]byte, HeaderSize), make([]byte, FooterSize)
	err := readFull(r, head, 0)
	if err == nil {
		err = readFull(r, foot, size-FooterSize)
	}
	if err == nil {
		f.Header, err = DecodeHeader(head)
	}
	if err == nil {
		f.Footer, err = DecodeFooter(foot, size)
	}
	if err == nil {
		err = f.Footer.Check(&f.Header)
	}
	f.Digest = sha256.Sum256(foot)
	return f, err
}

// readFull reads all of p.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// part reads a part and compares it with its digest.
func (f *File) part(part Part) ([]byte, error) {
	s := f.Footer.Parts[part]
	p := make([]byte, s.Length)
	if err := readFull(f.r, p, s.Offset); err != nil {
		return nil, err
	}
	if sha256.Sum256(p) != s.Sum {
		return nil, damaged("%s: digest", part)
	}
	return p, nil
}

// Index returns the index of the blocks of a part, Records or Bodies.
func (f *File) Index(of Part) ([]Block, error) {
	index := RecordIndex
	if of == Bodies {
		index = BodyIndex
	}
	p, err := f.part(index)
	if err != nil {
		return nil, err
	}
	return DecodeIndex(p, index, f.Footer.Parts[of], f.Footer.First, f.Footer.End)
}

// RecordBlocks returns the number of record blocks.
func (f *File) RecordBlocks() int { return int(f.Footer.Parts[RecordIndex].Length / recordRow) }

// Contents returns the summary of the file's events.
func (f *File) Contents() (Contents, error) {
	p, err := f.contents()
	if err != nil {
		return Contents{}, err
	}
	return DecodeContents(p, f.RecordBlocks())
}

// About returns Contents with the blocks of one slice only.
func (f *File) About(slice event.Slice) (Contents, error) {
	p, err := f.contents()
	if err != nil {
		return Contents{}, err
	}
	return decodeContents(p, f.RecordBlocks(), func(s event.Slice) bool { return s == slice })
}

// Kinds returns only the kinds of Contents.
func (f *File) Kinds() ([]KindCount, error) {
	p, err := f.contents()
	if err != nil {
		return nil, err
	}
	r, c := reader{p: p}, Contents{}
	if r.kinds(&c); r.bad {
		return nil, damaged("contents do not fit")
	}
	return c.Kinds, nil
}

// contents returns the encoded contents.
func (f *File) contents() ([]byte, error) {
	p, err := f.part(Summary)
	if err != nil {
		return nil, err
	}
	return decompress(p, int(f.Footer.ContentsSize))
}

// IDs returns the message-ids of a file.
func (f *File) IDs() (IDTable, error) {
	p, err := f.part(IDs)
	if err != nil {
		return nil, err
	}
	return DecodeIDs(p, f.RecordBlocks())
}

// Find returns the record blocks in which an event with a message-id may begin, ascending. It is
// [IDTable.Blocks] of the whole table. The table has megabytes, and only the pages that may have
// the id are read.
func (f *File) Find(id []byte) ([]int, error) {
	s := f.Footer.Parts[IDs]
	contents, err := f.part(Summary)
	if err != nil {
		return nil, err
	}
	pages, err := decodePages(contents, s.Length)
	if err != nil {
		return nil, err
	}
	find := f.findInAll
	if pages != nil {
		find = func(id []byte) ([]int, error) { return f.findIn(pages, id) }
	}
	list, err := find(id)
	if err != nil {
		return nil, err
	}
	if n := f.RecordBlocks(); len(list) > 0 && list[len(list)-1] >= n || s.Length%idRow != 0 || !slices.IsSorted(list) {
		return nil, damaged("%s: rows do not fit %d blocks", IDs, n)
	}
	return list, nil
}

// findInAll does the same as Find for a table without pages. It reads the table piece by piece
// through a small buffer. The digest confirms the rows that are skipped.
func (f *File) findInAll(id []byte) (list []int, err error) {
	const piece = 5000 * idRow // bytes: fits in a processor's cache
	s, sum := f.Footer.Parts[IDs], sha256.New()
	buf := make([]byte, min(piece, s.Length))
	for at := s.Offset; at < s.end(); {
		p := buf[:min(int64(len(buf)), s.end()-at)]
		if err := readFull(f.r, p, at); err != nil {
			return nil, err
		}
		sum.Write(p)
		list = append(list, IDTable(p).Blocks(id)...)
		at += int64(len(p))
	}
	if [sha256.Size]byte(sum.Sum(nil)) != s.Sum {
		return nil, damaged("%s: digest", IDs)
	}
	return list, nil
}

// Read reads and decompresses the i-th of the blocks of a part.
func (f *File) Read(blocks []Block, i int) (*Data, error) {
	b, limit := &blocks[i], f.Footer.End
	if i+1 < len(blocks) {
		limit = blocks[i+1].First
	}
	stored := make([]byte, b.Stored)
	err := readFull(f.r, stored, b.Offset)
	var d *Data
	if err == nil {
		d, err = b.Decode(stored, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("block at byte %d: %w", b.Offset, err)
	}
	return d, nil
}

// Verify compares the digest of every part, reading through buf. With an error, at is the start of
// the part with the wrong digest, in bytes from the beginning of the file.
func (f *File) Verify(buf []byte) (at int64, err error) {
	for i, s := range f.Footer.Parts {
		sum := sha256.New()
		for at := s.Offset; at < s.end(); {
			p := buf[:min(int64(len(buf)), s.end()-at)]
			if err := readFull(f.r, p, at); err != nil {
				return at, err
			}
			sum.Write(p)
			at += int64(len(p))
		}
		if [sha256.Size]byte(sum.Sum(nil)) != s.Sum {
			return s.Offset, damaged("%s: digest", Part(i))
		}
	}
	return 0, nil
}
