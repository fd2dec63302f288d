package sealed

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/format"
)

// often returns a file whose table of ids is longer than one piece, with an id whose rows are in
// several pieces, and the bytes of the table.
func often(blocks int, pages bool) (*File, []byte) {
	var rows [][idRow]byte
	for i := range blocks {
		rows = append(rows, idOf([]byte("often"), i), idOf(fmt.Append(nil, i), i))
	}
	var p, contents []byte
	for _, r := range sortIDs(rows) {
		p = append(p, r[:]...)
	}
	n := int64(len(p))
	if pages {
		contents = encodePages(p)
	}
	p = append(p, contents...)
	f := &File{r: bytes.NewReader(p)}
	f.Footer.Parts[IDs] = Span{0, n, sha256.Sum256(p[:n])}
	f.Footer.Parts[Summary] = Span{n, int64(len(contents)), sha256.Sum256(contents)}
	f.Footer.Parts[RecordIndex].Length = int64(blocks) * recordRow
	return f, p[:n]
}

// A table of ids is searched to its end, and a wrong byte is never a missing id.
func TestFindReadsAllPieces(t *testing.T) {
	t.Parallel()
	const blocks = 6000
	for _, pages := range []bool{false, true} {
		f, p := often(blocks, pages)
		if list, err := f.Find([]byte("often")); err != nil || len(list) != blocks || !slices.IsSorted(list) {
			t.Errorf("%d blocks, %v", len(list), err)
		}
		for i := range blocks {
			if list, err := f.Find(fmt.Append(nil, i)); err != nil || !slices.Equal(list, []int{i}) {
				t.Fatalf("%d: %v, %v", i, list, err)
			}
			if i > 50 && !pages { // the whole table each time
				break
			}
		}
		for i := range 1000 {
			if list, err := f.Find(fmt.Append(nil, "never ", i)); err != nil || list != nil {
				t.Fatalf("%v, %v", list, err)
			}
		}
		f.Footer.Parts[RecordIndex].Length -= recordRow // so that the last block is not there
		if _, err := f.Find([]byte("often")); !errors.Is(err, format.ErrDamaged) {
			t.Errorf("a block that is not there: %v", err)
		}
		f.Footer.Parts[RecordIndex].Length += recordRow
		for _, at := range []int{0, len(p) / 2, len(p) - 1} {
			p[at] ^= 1
			if list, err := f.Find([]byte("never")); !pages && !errors.Is(err, format.ErrDamaged) || err == nil && list != nil {
				t.Errorf("with a wrong byte at %d: %v, %v", at, list, err)
			}
			p[at] ^= 1
		}
	}
}

// With any byte of any page wrong, each id is found, or damage is; and damage where the byte is in
// the id's row.
func TestFindNeverMissesForDamage(t *testing.T) {
	t.Parallel()
	const blocks = 700 // some pages
	f, p := often(blocks, true)
	found, refused := 0, 0
	for at := 5; at < len(p); at += 97 {
		p[at] ^= 1 << (at % 8)
		if list, err := f.Find([]byte("often")); err == nil && len(list) != blocks || err != nil && !errors.Is(err, format.ErrDamaged) {
			t.Fatalf("wrong byte %d: %d blocks, %v", at, len(list), err)
		}
		for i := range blocks {
			list, err := f.Find(fmt.Append(nil, i))
			switch row := idOf(fmt.Append(nil, i), i); {
			case err == nil && slices.Equal(list, []int{i}):
				found++
				if !bytes.Contains(p, row[:]) {
					t.Fatalf("wrong byte %d is in the row of %d, which is found", at, i)
				}
			case errors.Is(err, format.ErrDamaged):
				refused++
			default:
				t.Fatalf("wrong byte %d: %d is in %v, %v", at, i, list, err)
			}
		}
		p[at] ^= 1 << (at % 8)
	}
	if found == 0 || refused == 0 {
		t.Errorf("%d are found and %d refused; want some", found, refused)
	}
}

// A file that was sealed before pages existed gives the same results, and so does one whose
// contents end with an unknown structure.
func TestFilesWithoutPages(t *testing.T) {
	t.Parallel()
	whole, _ := chapter(rand.New(rand.NewPCG(4, 16))).seal(t, 1<<20, nil)
	f := open(t, whole)
	contents, err := f.part(Summary)
	if err != nil {
		t.Fatal(err)
	}
	if pages, err := decodePages(contents, f.Footer.Parts[IDs].Length); err != nil || pages.len() == 0 {
		t.Fatalf("a new file has %d pages, %v", pages.len(), err)
	}
	before := contents[:int64(len(contents))-pagesLength(f.Footer.Parts[IDs].Length)]
	other := append(le.AppendUint32(le.AppendUint32(slices.Clone(before), pagesMagic+1), 4), "else"...)
	for name, contents := range map[string][]byte{"before": before, "other": other} {
		old := open(t, forge(t, whole, Summary, contents, nil))
		if c, err := old.Contents(); err != nil || len(c.Slices) != 5 {
			t.Errorf("%s: contents: %+v, %v", name, c, err)
		}
		for _, id := range []string{"id-7", "long", "never"} {
			want, err1 := f.Find([]byte(id))
			have, err2 := old.Find([]byte(id))
			if err1 != nil || err2 != nil || !slices.Equal(have, want) || (want == nil) != (id == "never") {
				t.Errorf("%s: %s is in %v, %v, with pages in %v, %v", name, id, have, err2, want, err1)
			}
		}
	}
}
