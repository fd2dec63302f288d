package replay_test

import (
	"errors"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// cutKind is a way in which chapters go.
type cutKind struct{ raw, few bool }

// kinds are sealed, as they are, and each of the two but for a few bodies.
var kinds = map[string]cutKind{"sealed": {}, "unsealed": {raw: true}, "sealed, but for bodies": {few: true}, "unsealed, but for bodies": {raw: true, few: true}}

// as makes it one of the kinds.
func (c *cutting) as(k cutKind) {
	if c.raw, c.few = k.raw, k.few; c.few {
		c.opts.SegmentBytes, c.opts.ChapterBytes = 4000, 9000
	}
}

// countAlone counts the files of bodies that there are.
func (c *cutting) countAlone() {
	for _, name := range c.fs.Files(filepath.Join(cutDir, "partitions/00/sealed")) {
		if p, err := c.fs.ReadFile(name); err == nil && len(p) > 5 && p[4] == 2 {
			c.alone++
		}
	}
}

// drop drops the bodies that no message has any more, from files that are kept for their bodies.
func (c *cutting) drop() error {
	needed := map[event.Position]bool{}
	state := c.x.Snapshot()
	for b := range state.Blobs() {
		needed[b.Position] = true
	}
	state.Close()
	first, _ := c.part.Bounds()
	for _, s := range c.part.Segments() {
		if s.Sealed == 0 || s.End > first {
			continue
		}
		_, err := c.part.(log.Compactor).DropBodies(c.t.Context(), s.File, func(b *log.Body) bool { return needed[b.Position] }, 1)
		if err == nil {
			c.dropped++
		} else if !errors.Is(err, log.ErrTooLittle) {
			return err
		}
	}
	return nil
}
