package sealed

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sort"
)

// A row of the ids has the first eight bytes of the SHA-256 of a message-id's text, and the record
// block of an event with that id. Rows are ordered as bytes, without duplicates.
const (
	hashSize = 8
	idRow    = hashSize + 4
)

func idOf(id []byte, block int) (row [idRow]byte) {
	sum := sha256.Sum256(id)
	copy(row[:hashSize], sum[:])
	binary.BigEndian.PutUint32(row[hashSize:], uint32(block))
	return row
}

// sortIDs sorts rows and returns them without duplicates.
func sortIDs(rows [][idRow]byte) [][idRow]byte {
	slices.SortFunc(rows, func(a, b [idRow]byte) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(rows)
}

// IDTable is the list of a file's ids.
type IDTable []byte

// DecodeIDs checks the rows of a file with that many record blocks. The error wraps
// [format.ErrDamaged].
func DecodeIDs(p []byte, blocks int) (IDTable, error) {
	for at := 0; at+idRow <= len(p); at += idRow {
		block := binary.BigEndian.Uint32(p[at+hashSize:])
		if uint64(block) >= uint64(blocks) || at > 0 && bytes.Compare(p[at-idRow:at], p[at:at+idRow]) >= 0 {
			return nil, damaged("ids: row %d does not fit", at/idRow)
		}
	}
	if len(p)%idRow != 0 {
		return nil, damaged("ids: %d bytes", len(p))
	}
	return p, nil
}

// Len returns the number of rows.
func (t IDTable) Len() int { return len(t) / idRow }

// Blocks returns the record blocks in which an event with the message-id may begin, ascending. Some
// of them may have another id with the same hash.
func (t IDTable) Blocks(id []byte) (list []int) {
	want := idOf(id, 0)
	i := sort.Search(t.Len(), func(i int) bool { return bytes.Compare(t[i*idRow:(i+1)*idRow], want[:]) >= 0 })
	for ; i < t.Len() && bytes.Equal(t[i*idRow:i*idRow+hashSize], want[:hashSize]); i++ {
		list = append(list, int(binary.BigEndian.Uint32(t[i*idRow+hashSize:])))
	}
	return list
}
