package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// This file reads and writes namespace.json (log-format.md 4). Only this file says which format a
// directory has, and which capabilities it uses: contents that not every program of that format can
// read.
const (
	NamespaceName = "namespace.json"
	MaxNamespace  = 1 << 16 // longest file that is read, bytes

	oldestDirectory = 1
	Directory       = 2 // format of the directories that this version writes

	maxCapabilities = 64
	maxCapability   = 32 // bytes of a word
)

// MaxPartitions is how many partitions a namespace may have.
const MaxPartitions = 64

// Namespace describes a data directory: the contents of namespace.json.
type Namespace struct {
	ID         string // UUID
	Format     int    // of the data directory; Lead raises an older one
	Partitions int
	Created    time.Time
	// Capabilities are the words for contents beyond the format, in ascending order. The caller
	// must not change it.
	Capabilities []string
}

// Tag returns the first bytes of the id, by which files are known to belong together.
func (n Namespace) Tag() (uint32, error) {
	id, err := uuid.Parse(n.ID)
	return le.Uint32(id[:4]), err
}

// The capabilities that this version knows. docs/log-format.md, section 4, says what comes with
// each.
const (
	Backups      = "backups"
	Cuts         = "cuts"
	Erased       = "erased"
	Erasures     = "erasures"
	Bases        = "base"
	Bodies       = "bodies"
	Fences       = "fences"
	Moves        = "moves"
	Partitioned  = "partitioned"
	Policies     = "policies"
	Sealed       = "sealed"
	Slice        = "slice"
	Transactions = "transactions"
	Unsealed     = "unsealed"
)

// Capabilities are the words that this version knows, in ascending order.
var Capabilities = []string{Backups, Bases, Bodies, Cuts, Erased, Erasures, Fences, Moves, Partitioned, Policies, Sealed, Slice, Transactions, Unsealed}

// namespaceFile is the structure of namespace.json. Every format has the first five members.
type namespaceFile struct {
	Format     int    `json:"format"`
	Namespace  string `json:"namespace"`
	Partitions int    `json:"partitions"`
	Created    string `json:"created"`
	Sum        string `json:"sum"`
	// since format 2, like the next one: an empty list is written, a missing one is not
	Capabilities    []string `json:"capabilities,omitzero"`
	CapabilitiesSum string   `json:"capabilitiesSum,omitzero"`
}

func (n *namespaceFile) sum() string {
	return sumOf(fmt.Sprintf("%d %s %d %s", n.Format, n.Namespace, n.Partitions, n.Created))
}

func (n *namespaceFile) capabilitiesSum() string {
	return sumOf(strings.Join(append([]string{n.Namespace}, n.Capabilities...), " "))
}

func sumOf(text string) string { return fmt.Sprintf("%08x", event.Sum([]byte(text))) }

// EncodeNamespace returns the contents of namespace.json.
func EncodeNamespace(n Namespace) []byte {
	f := namespaceFile{Format: n.Format, Namespace: n.ID, Partitions: n.Partitions, Created: n.Created.UTC().Format(time.RFC3339Nano)}
	f.Sum = f.sum()
	if n.Format > oldestDirectory {
		f.Capabilities = append([]string{}, n.Capabilities...)
		f.CapabilitiesSum = f.capabilitiesSum()
	}
	p, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(p, '\n')
}

// DecodeNamespace returns the contents of namespace.json, and the tag by which the other files know
// their namespace. It trusts nothing, not even the format, before it has compared the sums: one
// flipped bit makes a 3 of a 2, or another word of a capability. The error is ErrNewer for a newer
// format and for a capability that is not in known.
func DecodeNamespace(p []byte, known []string) (Namespace, uint32, error) {
	var f namespaceFile
	if err := json.Unmarshal(p, &f); err != nil {
		return Namespace{}, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if f.Sum != f.sum() {
		return Namespace{}, 0, fmt.Errorf("%w: checksum", ErrDamaged)
	}
	if f.Format > Directory {
		return Namespace{}, 0, fmt.Errorf("%w: namespace.json has format %d, this program knows up to %d", ErrNewer, f.Format, Directory)
	}
	if f.Format > oldestDirectory && f.CapabilitiesSum != f.capabilitiesSum() {
		return Namespace{}, 0, fmt.Errorf("%w: checksum of the capabilities", ErrDamaged)
	}
	id, err := uuid.Parse(f.Namespace)
	created, err2 := time.Parse(time.RFC3339Nano, f.Created)
	if err != nil || err2 != nil || f.Format < oldestDirectory || f.Partitions < 1 || f.Partitions > MaxPartitions || !AreCapabilities(f.Capabilities) {
		return Namespace{}, 0, fmt.Errorf("%w: contents are inconsistent", ErrDamaged)
	}
	n := Namespace{ID: f.Namespace, Format: f.Format, Partitions: f.Partitions, Created: created, Capabilities: f.Capabilities}
	if !bytes.Equal(EncodeNamespace(n), p) { // JSON is read more leniently than it is written
		return Namespace{}, 0, fmt.Errorf("%w: not as it was written", ErrDamaged)
	}
	for _, word := range n.Capabilities {
		if !slices.Contains(known, word) {
			return Namespace{}, 0, fmt.Errorf("%w: the directory uses %q", ErrNewer, word)
		}
	}
	return n, le.Uint32(id[:4]), nil
}

// AreCapabilities reports whether namespace.json may contain words: few, short, of lower-case
// letters, digits and dashes, in ascending order and without duplicates.
func AreCapabilities(words []string) bool {
	for i, word := range words {
		strange := strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
		if word == "" || len(word) > maxCapability || strange || i > 0 && word <= words[i-1] {
			return false
		}
	}
	return len(words) <= maxCapabilities
}
