package tools_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// ofBase reports whether events of a kind are only in bases, which no dump shows.
func ofBase(k event.Kind) bool {
	return k >= event.KindSliceRestored && k <= event.KindCatalogueRestored
}

// cutLog returns a directory whose log begins with a base.
func cutLog(t *testing.T) (dir string, base log.BaseInfo, first event.LSN) {
	t.Helper()
	dir = t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 2000, ChapterBytes: 4000, SealAfter: -1})
	p, w := d.Lead(0)
	of := event.Envelope{Slice: event.Slice{Entity: 4}}
	for i := range event.SequenceNumber(100) {
		d.Append(w, 1000, &event.MessageEnqueued{Envelope: of, Sequence: i + 1, EnqueuedAt: 1000, Body: event.Blob{Data: bytes.Repeat([]byte("."), 100)}},
			&event.MessageReceivedAndDeleted{Envelope: of, Sequence: i + 1})
	}
	s := replay.Begin(p)
	if err := s.Run(t.Context(), replay.Watch{}); err != nil {
		t.Fatal(err)
	}
	_, end := p.Bounds()
	d.Save(p, end, s.Index.Encode(nil))
	for more := true; more; {
		var err error
		if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if freed, err := replay.Cut(t.Context(), p, end, true); err != nil || freed == 0 {
		t.Fatalf("%+v %+v; want freed != 0", freed, err)
	}
	base, _ = p.(log.Bases).Base()
	first, _ = p.Bounds()
	d.Close()
	return dir, base, first
}

// log verify names and proves the base. log dump shows the kept part and where it begins.
func TestToolsWithBase(t *testing.T) {
	t.Parallel()
	dir, base, first := cutLog(t)
	var out strings.Builder
	if _, err := tools.Verify(&out, dir, tools.VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "base partition 0 LSN ") || !strings.Contains(out.String(), "ok partition 0") {
		t.Errorf("verify says %s", out.String())
	}
	if err := tools.Dump(io.Discard, dir, tools.DumpOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := tools.Dump(io.Discard, dir, tools.DumpOptions{From: first - 8}); !errors.Is(err, log.ErrGone) || !strings.Contains(err.Error(), "begins at LSN") {
		t.Errorf("a dump from before: %v", err)
	}
	name := filepath.Join(dir, base.File)
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p[len(p)/3] ^= 4
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	r, err := tools.Verify(&out, dir, tools.VerifyOptions{})
	if err != nil || r.Places == 0 || !strings.Contains(out.String(), "lbb") {
		t.Errorf("verify of a damaged base: %v\n%s", err, out.String())
	}
}
