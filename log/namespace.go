package log

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// How namespace.json is read and written (log-format.md 4). It alone says of which format a directory is, and which capabilities are in
// use in it: what may be found there that not every binary of that format can read.
const (
	namespaceName = "namespace.json"
	namespaceMax  = 1 << 16 // longest that is read, bytes

	oldestFormat    = 1
	directoryFormat = 2 // of what this version writes

	maxCapabilities = 64
	maxCapability   = 32 // bytes of a word
)

// capabilities are the words that this version knows, in ascending order. It writes nothing yet that needs one.
var capabilities = []string{}

// namespaceFile is namespace.json. The first five members are those of every format.
type namespaceFile struct {
	Format          int      `json:"format"`
	Namespace       string   `json:"namespace"`
	Partitions      int      `json:"partitions"`
	Created         string   `json:"created"`
	Sum             string   `json:"sum"`
	Capabilities    []string `json:"capabilities,omitzero"` // since format 2, like the next: an empty list is written, none is not
	CapabilitiesSum string   `json:"capabilitiesSum,omitzero"`
}

func (n *namespaceFile) sum() string {
	return sumOf(fmt.Sprintf("%d %s %d %s", n.Format, n.Namespace, n.Partitions, n.Created))
}

func (n *namespaceFile) capabilitiesSum() string {
	return sumOf(strings.Join(append([]string{n.Namespace}, n.Capabilities...), " "))
}

func sumOf(text string) string { return fmt.Sprintf("%08x", event.Sum([]byte(text))) }

func encodeNamespace(n Namespace) []byte {
	f := namespaceFile{Format: n.Format, Namespace: n.ID, Partitions: n.Partitions, Created: n.Created.UTC().Format(time.RFC3339Nano)}
	f.Sum = f.sum()
	if n.Format > oldestFormat {
		f.Capabilities = append([]string{}, n.Capabilities...)
		f.CapabilitiesSum = f.capabilitiesSum()
	}
	p, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(p, '\n')
}

// decodeNamespace believes nothing, the format neither, before the sums: one flipped bit makes a 3 of its 2, or another word of one. The
// error is ErrFormat for a newer format and for a capability that is not among those known.
func decodeNamespace(p []byte, known []string) (Namespace, uint32, error) {
	var f namespaceFile
	if err := json.Unmarshal(p, &f); err != nil {
		return Namespace{}, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if f.Sum != f.sum() {
		return Namespace{}, 0, fmt.Errorf("%w: checksum", errDamaged)
	}
	if f.Format > directoryFormat {
		return Namespace{}, 0, fmt.Errorf("%w: namespace.json has format %d, this program knows up to %d", ErrFormat, f.Format, directoryFormat)
	}
	if f.Format > oldestFormat && f.CapabilitiesSum != f.capabilitiesSum() {
		return Namespace{}, 0, fmt.Errorf("%w: checksum of the capabilities", errDamaged)
	}
	id, err := uuid.Parse(f.Namespace)
	created, err2 := time.Parse(time.RFC3339Nano, f.Created)
	if err != nil || err2 != nil || f.Format < oldestFormat || f.Partitions < 1 || f.Partitions > maxPartitions || !areCapabilities(f.Capabilities) {
		return Namespace{}, 0, fmt.Errorf("%w: contents do not agree", errDamaged)
	}
	n := Namespace{ID: f.Namespace, Format: f.Format, Partitions: f.Partitions, Created: created, Capabilities: f.Capabilities}
	if !bytes.Equal(encodeNamespace(n), p) { // JSON is read more leniently than it is written
		return Namespace{}, 0, fmt.Errorf("%w: not as it was written", errDamaged)
	}
	for _, word := range n.Capabilities {
		if !slices.Contains(known, word) {
			return Namespace{}, 0, fmt.Errorf("%w: the directory uses %q", ErrFormat, word)
		}
	}
	return n, le.Uint32(id[:4]), nil
}

// areCapabilities reports whether words may stand in namespace.json: few, short, of lower-case letters, digits and dashes, and in
// ascending order, none twice.
func areCapabilities(words []string) bool {
	for i, word := range words {
		strange := strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
		if word == "" || len(word) > maxCapability || strange || i > 0 && word <= words[i-1] {
			return false
		}
	}
	return len(words) <= maxCapabilities
}

// readNamespace returns what namespace.json says, and the tag that the other files carry.
func readNamespace(fsys FS, root string, known []string) (Namespace, uint32, error) {
	p, err := readFile(fsys, filepath.Join(root, namespaceName), namespaceMax)
	if err != nil {
		return Namespace{}, 0, err
	}
	return decodeNamespace(p, known)
}

// raise makes a directory of an older format one of today's before anything else is written in it (log-format.md 5.4). A crash leaves
// the one or the other, and either can be opened.
func (s *store) raise() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.fault != nil || s.ns.Format == directoryFormat {
		return s.fault
	}
	from := s.ns.Format
	if err := s.rewrite(s.ns.Capabilities); err != nil {
		s.fault = fmt.Errorf("%w: %s: %w", ErrPoisoned, namespaceName, err)
		return s.fault
	}
	s.opts.Logger.Info("the data directory has the newer format now: older versions cannot open it any more", "from", from, "to", directoryFormat)
	return nil
}

// Use implements [Store].
func (s *store) Use(capability string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.opts.ReadOnly:
		return ErrReadOnly
	case s.closed:
		return ErrClosed
	case !slices.Contains(s.opts.Capabilities, capability):
		return fmt.Errorf("log: no capability %q", capability)
	}
	at, used := slices.BinarySearch(s.ns.Capabilities, capability)
	if used {
		return nil
	}
	if err := s.rewrite(slices.Insert(slices.Clone(s.ns.Capabilities), at, capability)); err != nil {
		return fmt.Errorf("log: first use of %q: %s: %w", capability, namespaceName, err)
	}
	return nil
}

// rewrite makes namespace.json one of today's format with these capabilities. The caller holds mu.
func (s *store) rewrite(capabilities []string) error {
	n := s.ns
	n.Format, n.Capabilities = directoryFormat, capabilities
	if err := replaceFile(s.fs, filepath.Join(s.root, namespaceName), encodeNamespace(n)); err != nil {
		return err
	}
	s.ns = n
	return nil
}
