package format

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// flips is how many bytes are changed in each kind of directory, each in a copy of its own.
const flips = 60

// TestDamage: a changed byte anywhere in a segment file, and an end of it that is missing, is
// damage to both readers, at the same place. Where the last run was not stopped cleanly some look
// like a tail that was promised to nobody: then both take it for one.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		boot    string // of the kernel; "": this one
		missing []string
	}{
		"after a clean stop": {},
		"after a kill":       {missing: []string{"clean"}},
		"without any note":   {missing: []string{"clean", "partitions/*/progress"}},
		"after a power loss": {boot: "another", missing: []string{"clean"}},
		"… and no progress":  {boot: "another", missing: []string{"clean", "partitions/*/progress"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := queue(t, c.boot)
			for _, pattern := range c.missing {
				files, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil || len(files) == 0 {
					t.Fatalf("%+v %+v; want len(files) != 0", pattern, err)
				}
				for _, file := range files {
					remove(t, file)
				}
			}
			agree(t, dir)
			found := compare(t, dir, flips, func(r *rand.Rand, content []byte) []byte {
				content[r.IntN(len(content))] ^= byte(1 + r.IntN(255))
				return content
			})
			if found < flips*8/10 || c.missing == nil && found < flips {
				t.Errorf("%d of %d changed bytes are damage", found, flips)
			}
			cut := compare(t, dir, flips/4, func(r *rand.Rand, content []byte) []byte {
				return content[:r.IntN(len(content))]
			})
			if cut < flips/4/3 || c.missing == nil && cut < flips/4 {
				t.Errorf("%d of %d cuts are damage", cut, flips/4)
			}
		})
	}
}

// queue makes a directory in which messages went through a queue, in two runs, several chapters and
// segment files.
func queue(t *testing.T, boot string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	env := event.Envelope{Slice: event.Slice{Entity: 4}, Origin: 1}
	n := event.SequenceNumber(0)
	for run := range 2 {
		d := logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 2 << 10, ChapterBytes: 5 << 10, BootID: boot})
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
			d.Append(w, at, &event.MessageLocked{Envelope: env, Sequence: n, Token: event.LockToken{1, byte(n)}, LockedUntil: at + 1000})
			if n%2 == 0 {
				d.Append(w, at, &event.MessageCompleted{Envelope: env, Sequence: n, Token: event.LockToken{1, byte(n)}})
			}
		}
		d.Close()
	}
	return dir
}

// compare changes a segment file in each of some copies of a directory, has both readers read them,
// and says how many are damaged.
func compare(t *testing.T, dir string, times int, change func(*rand.Rand, []byte) []byte) (found int) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	files := slices.DeleteFunc(segments(t, dir), func(file string) bool {
		info, err := os.Stat(file)
		return err == nil && info.Size() == 0
	})
	copies := make([]string, times)
	for i := range copies {
		copies[i] = t.TempDir()
		if err := os.CopyFS(copies[i], os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(copies[i], strings.TrimPrefix(files[r.IntN(len(files))], dir))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, change(r, content), 0o600); err != nil {
			t.Fatal(err)
		}
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
			t.Errorf(`%s (%s): %s; want strings.Contains(got, want+",")`, want, first.Reason, lines(got, into))
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
