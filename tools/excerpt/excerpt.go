package excerpt

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/tools"
)

// Bodies selects the handling of message bodies.
type Bodies string

const (
	Keep Bodies = "keep"
	// replaces each body with a note of the same size, and also drops session states and property
	// changes
	Drop Bodies = "drop"
	Hash Bodies = "hash" // like Drop, with the SHA-256 of the payload as the note
)

// Options select the contents of a slice.
type Options struct {
	Since, Until *ledger.Instant // both inclusive; nil: from the beginning, to the end
	Entity       string          // "": all
	Bodies       Bodies
	Now          time.Time
	Progress     func(partition int) // called before each log is written; may be nil
}

// A Slice is the description of a slice in slice.json.
type Slice struct {
	Version   int       `json:"slice"`     // 1
	Of        string    `json:"of"`        // namespace id of the original
	Namespace string    `json:"namespace"` // namespace id of the slice
	Made      time.Time `json:"made"`
	Since     string    `json:"since,omitzero"` // as requested: a time or a place
	Until     string    `json:"until,omitzero"`
	Entities  []string  `json:"entities,omitzero"` // selected entities; none: all
	Bodies    Bodies    `json:"bodies"`
	Logs      []Log     `json:"logs"`
}

// A Log describes a log of a slice.
type Log struct {
	Partition uint64 `json:"partition"`
	Base      uint64 `json:"base"` // LSN at which its history begins, with a state
	End       uint64 `json:"end"`
	Messages  int    `json:"messages"` // in that state
	Events    int    `json:"events"`
	From      string `json:"from,omitzero"` // time of the first event and of the last
	To        string `json:"to,omitzero"`

	chapter uint32
}

// String describes the slice for people.
func (s *Slice) String() string {
	text := "a slice of the namespace " + s.Of
	if s.Since != "" {
		text += " from " + s.Since
	}
	if s.Until != "" {
		text += " up to " + s.Until
	}
	if s.Entities != nil {
		text += ", only " + strings.Join(s.Entities, ", ")
	}
	return text + "; bodies: " + string(s.Bodies)
}

// Name is the name of the file that describes a slice.
const Name = "slice.json"

// maxDescription is the maximum size of that file in bytes.
const maxDescription = 1 << 20

// Cut writes a part of the logs of a store to a directory that is being received. tell gets notes
// about missing history. The directory is complete only after [tools.Incoming.Finish]. Errors about
// the requested part wrap errors of package ledger.
func Cut(ctx context.Context, s log.Store, tell ledger.Tell, to *tools.Incoming, o Options) (*Slice, error) {
	ns := s.Namespace()
	of, err := ledger.New(s, tell).Extent(ctx, o.Since, o.Until, o.Entity)
	if err != nil {
		return nil, err
	}
	x, err := log.NewExcerpt(to, ns.Partitions, ns.Capabilities, o.Now)
	if err != nil {
		return nil, err
	}
	made := &Slice{Version: 1, Of: ns.ID, Namespace: x.Namespace().ID, Made: o.Now.UTC(), Entities: of.Paths, Bodies: o.Bodies}
	for to, at := range map[*string]*ledger.Instant{&made.Since: o.Since, &made.Until: o.Until} {
		if at != nil {
			*to = at.String()
		}
	}
	var m masks
	if _, err := rand.Read(m[:]); err != nil {
		return nil, err
	}
	for _, id := range s.Partitions() {
		if o.Progress != nil {
			o.Progress(int(id))
		}
		p, err := s.Open(ctx, id)
		if err != nil {
			return nil, err
		}
		c := &logCopy{Partition: p, of: of, bodies: o.Bodies, masks: &m, begin: of.Begin[id]}
		if err := c.write(ctx, x); err != nil {
			return nil, err
		}
		made.Logs = append(made.Logs, c.summary)
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := to.Write(Name, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err }); err != nil {
		return nil, err
	}
	return made, x.Close()
}

// Read returns the description of a slice; nil: the directory is not a slice.
func Read(dir string, ns log.Store) (*Slice, error) {
	if !isSlice(ns.Namespace().Capabilities) {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(dir, Name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDescription))
	var s Slice
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && (s.Version != 1 || s.Namespace != ns.Namespace().ID) {
		err = fmt.Errorf("belongs to another directory")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return &s, nil
}

func isSlice(words []string) bool {
	for _, w := range words {
		if w == log.Slice {
			return true
		}
	}
	return false
}
