package log_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestF23Format: newer formats are refused as such, and nothing is written.
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
	newer(simDir+"/partitions/00/manifest", 4, note)
	newer(simDir+"/partitions/00/progress", 4, note)
	w.on(w.fs, func(w *world) {
		var ns struct {
			Namespace, Created string
			Partitions         int
		}
		p, _ := w.fs.ReadFile(simDir + "/namespace.json")
		if err := json.Unmarshal(p, &ns); err != nil {
			t.Fatal(err)
		}
		w.fs.WriteFile(simDir+"/namespace.json", fmt.Appendf(nil, `{"format":2,"namespace":%q,"partitions":%d,"created":%q,"sum":"%08x","more":[1]}`,
			ns.Namespace, ns.Partitions, ns.Created, event.Sum(fmt.Appendf(nil, "2 %s %d %s", ns.Namespace, ns.Partitions, ns.Created))))
		if err := w.open(); !errors.Is(err, log.ErrFormat) {
			w.failf("namespace: %v", err)
		}
	})
}

// TestNamespaceBits flips every bit of namespace.json, of those in its format digit too: that is damage, never a newer format, and
// never another namespace.
func TestNamespaceBits(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	p := must(w.fs.ReadFile(simDir + "/namespace.json"))(t)
	for bit := range 8 * len(p) {
		w.on(w.fs, func(w *world) {
			w.fs.Flip(simDir+"/namespace.json", int64(bit/8), 1<<(bit%8))
			var c *log.CorruptError
			if err := w.open(); !errors.As(err, &c) || !c.All || c.File != "namespace.json" || errors.Is(err, log.ErrFormat) {
				w.failf("bit %d of byte %d (%q): %v", bit%8, bit/8, p[bit/8], err)
			}
		})
	}
}
