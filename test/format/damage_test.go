package format

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// flips is how many bytes are changed in each kind of directory, one at a time.
const flips = 100

// TestDamage: a changed byte anywhere in a segment file is damage to both readers, at the same place. Where the last run was not
// stopped cleanly a few may look like a tail that was promised to nobody: then both take it for one.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, missing := range map[string][]string{
		"after a clean stop":    nil,
		"after the end of life": {"clean"},
		"without any note":      {"clean", "partitions/*/progress"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := queue(t)
			for _, pattern := range missing {
				files, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil || len(files) == 0 {
					t.Fatal(pattern, err)
				}
				for _, file := range files {
					remove(t, file)
				}
			}
			agree(t, dir)
			found := flip(t, dir)
			if found < flips*9/10 || missing == nil && found < flips {
				t.Errorf("%d of %d changed bytes are damage", found, flips)
			}
		})
	}
}

// queue makes a directory in which messages went through a queue, in two runs, several chapters and segment files.
func queue(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	env := event.Envelope{Slice: event.Slice{Entity: 4}, Origin: 1}
	n := event.SequenceNumber(0)
	for run := range 2 {
		d := logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 2 << 10, ChapterBytes: 5 << 10})
		_, w := d.Lead(0)
		at := event.Time(1_900_000_000_000 + 1000*run)
		if run == 0 {
			d.Append(w, at, &event.OriginDefined{ID: 1, Origin: event.Origin{Connection: 1, Principal: "RootManage"}},
				&event.EntityCreated{Envelope: env, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}})
		}
		for range 12 {
			n++
			d.Append(w, at, &event.MessageEnqueued{Envelope: env, Sequence: n, MessageID: []byte("m"), EnqueuedAt: at,
				Body: event.Blob{Data: []byte(strings.Repeat("body ", int(n)%40*3))}})
			d.Append(w, at, &event.MessageLocked{Envelope: env, Sequence: n, Token: event.LockToken{1}, LockedUntil: at + 1000})
			if n%2 == 0 {
				d.Append(w, at, &event.MessageCompleted{Envelope: env, Sequence: n, Token: event.LockToken{1}})
			}
		}
		d.Close()
	}
	return dir
}

// flip changes bytes of copies of a directory, has both readers read them, and says how many are damaged.
func flip(t *testing.T, dir string) (found int) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	files := segments(t, dir)
	var copies []string
	for range flips {
		into := t.TempDir()
		if err := os.CopyFS(into, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(into, strings.TrimPrefix(files[r.IntN(len(files))], dir))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > 0 {
			content[r.IntN(len(content))] ^= byte(1 + r.IntN(255))
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, into)
	}
	_, got, _ := read(t, copies...)
	for _, into := range copies {
		report, err := tools.Verify(io.Discard, into, tools.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Damaged) == 0 {
			if strings.Contains(got, into+"/") {
				t.Errorf("no damage to verify:\n%s", lines(got, into))
			}
			continue
		}
		found++
		first := report.Damaged[0]
		if want := fmt.Sprintf("%s: offset %d", filepath.Join(into, first.File), first.Offset); !strings.Contains(got, want+",") {
			t.Errorf("%s (%s): %s", want, first.Reason, lines(got, into))
		}
	}
	return found
}

// lines are those lines of a text that have a word in them.
func lines(text, word string) (list string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			list += line
		}
	}
	return list
}
