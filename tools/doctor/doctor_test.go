package doctor

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// The clock is judged by the rules of a start (reliability.md 1.4).
func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		newest  time.Time
		verdict Verdict
		text    string
	}{
		{time.Time{}, Good, "no time to compare"},
		{now.Add(-time.Minute), Good, "from the last minutes"},
		{now.Add(-48 * time.Hour), Good, "48h0m0s older"},
		{now.Add(-401 * 24 * time.Hour), Bad, "a start is refused"},
		{now.Add(10 * time.Minute), Warning, "10m0s before the newest record"},
		{now.Add(2 * time.Hour), Bad, "a start is refused"},
	} {
		var found []Finding
		e := examination{Options: Options{Now: func() time.Time { return now }}, tell: func(f Finding) error { found = append(found, f); return nil }}
		if err := e.clock(c.newest); err != nil || len(found) != 1 || found[0].Verdict != c.verdict || !strings.Contains(found[0].Text, c.text) || (found[0].Remedy == "") != (c.verdict == Good) {
			t.Errorf(`%v: %+v, %v; want len(found) == 1 && found[0].Verdict == c.verdict && strings.Contains(found[0].Text, c.text) && (found[0].Remedy == "") == (c.verdict == Good)`, c.newest, found, err)
		}
	}
}

// A stored state that differs from the replay is damage. doctor names its file, and the command
// that lists all damage.
func TestStateThatNoReplayComesTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1})
	p, w := d.Lead(0)
	end := d.Append(w, 2000, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: 1, EnqueuedAt: 2000})
	d.Save(p, end, index.New().Encode(nil)) // without the message
	d.Close()
	var found []Finding
	e := examination{dir: dir, Options: Options{Now: time.Now}, tell: func(f Finding) error { found = append(found, f); return nil }}
	if err := e.log(t.Context()); err != nil || len(found) < 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if f := found[0]; f.Verdict != Bad || f.Check != "log" || !strings.Contains(f.Text, "partitions/00/checkpoints/") || !strings.Contains(f.Remedy, "ledgerbus log verify "+dir) {
		t.Errorf("%+v", f)
	}
	if f := found[1]; f.Verdict != Bad || f.Check != "replay" {
		t.Errorf("%+v", f)
	}
}

// Measurements leave no files, even if they end at once.
func TestSync(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		if ended {
			cancel()
		}
		var found []Finding
		e := examination{dir: dir, Options: Options{Sync: 5 * time.Millisecond}, tell: func(f Finding) error { found = append(found, f); return nil }}
		if err := e.sync(ctx); err != nil || len(found) != 1 || found[0].Check != "sync" || ended != (found[0].Verdict == Bad) {
			t.Errorf(`%+v, %v; want len(found) == 1 && found[0].Check == "sync" && ended == (found[0].Verdict == Bad)`, found, err)
		}
		cancel()
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || left != nil {
			t.Errorf("%v, %v; want left == nil", left, err)
		}
	}
}
