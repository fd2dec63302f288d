package sealed

import (
	"bytes"
	"crypto/sha256"
	"sort"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A page is a group of pageRows rows of the ids with a checksum of its own. The rows of pages are
// in a zstd frame that decompressors skip, after the frame of the contents. A program that does not
// know pages reads the contents as before, and all of the ids.
const (
	pageRows   = 341
	pageSize   = pageRows * idRow // bytes; the last page may be shorter
	pageRow    = hashSize + 4
	pagesHead  = 12
	pagesMagic = 0x184D2A5B // one of the numbers that zstd skips
	pagesName  = "LBIP"
)

// idPages has a row for each page of the ids: the first hash of the page, and the checksum of its
// bytes.
type idPages []byte

func (p idPages) len() int           { return len(p) / pageRow }
func (p idPages) first(i int) []byte { return p[i*pageRow:][:hashSize] }
func (p idPages) sum(i int) uint32   { return le.Uint32(p[i*pageRow+hashSize:]) }

// pagesLength returns the length of the frame for that many bytes of ids.
func pagesLength(ids int64) int64 {
	if ids == 0 {
		return 0
	}
	return pagesHead + (ids+pageSize-1)/pageSize*pageRow
}

// encodePages returns the frame for ids; none without ids.
func encodePages(ids []byte) []byte {
	if len(ids) == 0 {
		return nil
	}
	n := pagesLength(int64(len(ids)))
	p := le.AppendUint32(make([]byte, 0, n), pagesMagic)
	p = append(le.AppendUint32(p, uint32(n-8)), pagesName...)
	for len(ids) > 0 {
		page := ids[:min(pageSize, len(ids))]
		p = le.AppendUint32(append(p, page[:hashSize]...), event.Sum(page))
		ids = ids[len(page):]
	}
	return p
}

// decodePages returns the pages from the end of a file's contents; nil: the file was written before
// pages existed. The digest of the part was compared before.
func decodePages(contents []byte, ids int64) (idPages, error) {
	n := pagesLength(ids)
	if n == 0 || n > int64(len(contents)) {
		return nil, nil
	}
	p := contents[int64(len(contents))-n:]
	if le.Uint32(p) != pagesMagic || int64(le.Uint32(p[4:])) != n-8 || string(p[8:pagesHead]) != pagesName {
		return nil, nil
	}
	list := idPages(p[pagesHead:])
	for i := 1; i < list.len(); i++ {
		if bytes.Compare(list.first(i-1), list.first(i)) > 0 {
			return nil, damaged("%s: page %d of the ids does not fit", Summary, i)
		}
	}
	return list, nil
}

// findIn does the same as [File.Find] by pages. It reads the pages that may have the hash, and
// their checksums confirm whether the id is in the file.
func (f *File) findIn(pages idPages, id []byte) (list []int, err error) {
	want := sha256.Sum256(id)
	hash := want[:hashSize]
	// The page before the first one that begins with the hash, or a higher one, may end with it.
	i := max(0, sort.Search(pages.len(), func(i int) bool { return bytes.Compare(pages.first(i), hash) >= 0 })-1)
	s, buf := f.Footer.Parts[IDs], make([]byte, pageSize)
	for ; i < pages.len() && bytes.Compare(pages.first(i), hash) <= 0; i++ {
		at := s.Offset + int64(i)*pageSize
		p := buf[:min(pageSize, s.end()-at)]
		if err := readFull(f.r, p, at); err != nil {
			return nil, err
		}
		if event.Sum(p) != pages.sum(i) || !bytes.Equal(p[:hashSize], pages.first(i)) {
			return nil, damaged("%s: checksum of page %d", IDs, i)
		}
		list = append(list, IDTable(p).Blocks(id)...)
	}
	return list, nil
}

// checkPages compares the pages of a file, if there are any, with its ids.
func (f *File) checkPages(ids IDTable) error {
	contents, err := f.part(Summary)
	if err != nil {
		return err
	}
	pages, err := decodePages(contents, int64(len(ids)))
	if err == nil && pages != nil && !bytes.Equal(pages, encodePages(ids)[pagesHead:]) {
		err = damaged("%s: the pages do not match the ids", Summary)
	}
	return err
}
