package doctor

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
		{time.Time{}, Good, "nothing to compare"},
		{now.Add(-time.Minute), Good, "of the last minutes"},
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

// Measuring leaves no files behind, even where it ends at once.
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
