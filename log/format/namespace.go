package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// MaxPartitions is how many a namespace may have.
const MaxPartitions = 64

// Namespace is what a data directory is.
type Namespace struct {
	ID         string // UUID
	Format     int
	Partitions int
	Created    time.Time
}

// Tag is the first bytes of the id, by which files know that they belong together.
func (n Namespace) Tag() (uint32, error) {
	id, err := uuid.Parse(n.ID)
	return le.Uint32(id[:4]), err
}

// namespaceFile is namespace.json.
type namespaceFile struct {
	Format     int    `json:"format"`
	Namespace  string `json:"namespace"`
	Partitions int    `json:"partitions"`
	Created    string `json:"created"`
	Sum        string `json:"sum"`
}

func (n *namespaceFile) sum() string {
	return fmt.Sprintf("%08x", event.Sum(fmt.Appendf(nil, "%d %s %d %s", n.Format, n.Namespace, n.Partitions, n.Created)))
}

// EncodeNamespace returns the contents of namespace.json.
func EncodeNamespace(n Namespace) []byte {
	f := namespaceFile{Format: n.Format, Namespace: n.ID, Partitions: n.Partitions, Created: n.Created.UTC().Format(time.RFC3339Nano)}
	f.Sum = f.sum()
	p, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(p, '\n')
}

// DecodeNamespace returns what namespace.json says, and the tag by which the other files know their namespace. It believes nothing, the format neither, before the sum: one flipped bit makes a 3 of its 1. Every format keeps the
// five members and their sum for that (log-format.md 4).
func DecodeNamespace(p []byte) (Namespace, uint32, error) {
	var f namespaceFile
	if err := json.Unmarshal(p, &f); err != nil {
		return Namespace{}, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if f.Sum != f.sum() {
		return Namespace{}, 0, fmt.Errorf("%w: checksum", ErrDamaged)
	}
	if f.Format > Version {
		return Namespace{}, 0, fmt.Errorf("%w: namespace.json version %d", ErrNewer, f.Format)
	}
	id, err := uuid.Parse(f.Namespace)
	created, err2 := time.Parse(time.RFC3339Nano, f.Created)
	if err != nil || err2 != nil || f.Format != Version || f.Partitions < 1 || f.Partitions > MaxPartitions {
		return Namespace{}, 0, fmt.Errorf("%w: contents do not agree", ErrDamaged)
	}
	n := Namespace{ID: f.Namespace, Format: f.Format, Partitions: f.Partitions, Created: created}
	if !bytes.Equal(EncodeNamespace(n), p) { // JSON is read more leniently than it is written
		return Namespace{}, 0, fmt.Errorf("%w: not as it was written", ErrDamaged)
	}
	return n, le.Uint32(id[:4]), nil
}
