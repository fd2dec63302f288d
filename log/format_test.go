package log_test

import (
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestF23Format: newer formats are refused as such, and nothing is written. Those of
// namespace.json: TestNamespaceText.
func TestF23Format(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	newer := func(name string, off int, sums ...func([]byte)) {
		w.on(w.fs, func(w *world) {
			p, _ := w.fs.ReadFile(name)
			p[off] = 2
			for _, sum := range sums {
				sum(p)
			}
			w.fs.WriteFile(name, p)
			if err := w.open(); !errors.Is(err, log.ErrFormat) {
				w.failf("%s: %v", name, err)
			}
		})
	}
	put := func(p []byte, at int, sum uint32) {
		for i := range 4 {
			p[at+i] = byte(sum >> (8 * i))
		}
	}
	note := func(p []byte) { put(p, len(p)-4, event.Sum(p[:len(p)-4])) }
	newer(w.segments()[0], 8+4, func(p []byte) { put(p, 8+84, event.Sum(p[8:8+84])) })
	// versions 2 and 3 are known
	newer(simDir+"/partitions/00/manifest", 4, func(p []byte) { p[4] += 2; note(p) })
	newer(simDir+"/partitions/00/progress", 4, note)
}
