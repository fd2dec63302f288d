package ledger_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/history"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/excerpt"
	"github.com/ledgerbus/ledgerbus/tools/export"
)

// files returns the files of a directory, by path below it, in order.
func files(t testing.TB, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			name, _ := filepath.Rel(root, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// FuzzDirectory asks questions about a directory in which the bytes of a file were changed. None
// panics, nothing is written except by an export, and no answer treats data that recovery refuses
// as good.
func FuzzDirectory(f *testing.F) {
	good := filepath.Join(f.TempDir(), "good")
	if err := history.Make(f.Context(), good, history.Options{Events: 300, Dead: 100, Lost: 100, Partitions: 1, Queues: 2, Checkpoint: 100}); err != nil {
		f.Fatal(err)
	}
	names := files(f, good)
	for i := range names {
		f.Add(uint8(i), uint32(100), []byte{0xff, 0, 1})
		f.Add(uint8(i), uint32(0), []byte("../../etc/passwd"))
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint32, patch []byte) {
		root := t.TempDir()
		data := filepath.Join(root, "data")
		if err := os.CopyFS(data, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(data, names[int(which)%len(names)])
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > 0 {
			copy(content[int(at)%len(content):], patch)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		before := files(t, root)
		s, err := log.Open(t.Context(), data, log.Options{ReadOnly: true})
		if err != nil {
			return // refused as a whole
		}
		defer s.Close()
		_, refused := s.Open(t.Context(), 0)
		lines := 0
		tell := func(ledger.Line) error { lines++; return nil }
		for question, ask := range map[string]func(*ledger.Ledger) error{
			"story": func(l *ledger.Ledger) error { return l.Story(t.Context(), address.Of(history.Queue(0), 3), "") },
			"id":    func(l *ledger.Ledger) error { return l.Story(t.Context(), address.Address{}, history.MessageID(0, 5)) },
			"at": func(l *ledger.Ledger) error {
				return l.At(t.Context(), ledger.Instant{At: history.Begins + 40_000_000}, "", true)
			},
			"why": func(l *ledger.Ledger) error {
				return l.Why(t.Context(), address.Address{Entity: history.Queue(0), SubQueue: event.DeadLetter})
			},
		} {
			if err := ask(ledger.New(s, tell)); refused != nil && err == nil {
				t.Errorf("%s is answered of a log that recovery refuses: %v", question, refused)
			}
			if lines > 10_000 {
				t.Errorf("%s has %d lines", question, lines)
			}
		}
		stepThrough(t, s, tell, refused)
		cutOut(t, s, tell, refused, root)
		out := filepath.Join(root, "out")
		if _, err := export.Export(t.Context(), s, tell, export.Options{Dir: out, Format: export.CSV}); refused != nil && err == nil {
			t.Errorf("a log is exported that recovery refuses: %v", refused)
		}
		if err := os.RemoveAll(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%v; want no error or fs.ErrNotExist", err)
		}
		if after := files(t, root); !slices.Equal(after, before) {
			t.Errorf("files %v, there were %v", after, before)
		}
	})
}

// stepThrough steps through a directory.
func stepThrough(t *testing.T, s log.Store, tell ledger.Tell, refused error) {
	d, err := ledger.NewDebugger(t.Context(), ledger.New(s, tell), nil, time.Now)
	if err != nil {
		return
	}
	defer d.Close()
	for _, command := range []string{"n 200", "b 30", "break type = 'dead'", "c", "r", "go end", "p"} {
		if err := d.Do(t.Context(), command); err != nil {
			return
		}
	}
	if refused != nil {
		t.Errorf("a log is stepped through that recovery refuses: %v", refused)
	}
}

// cutOut makes a slice of a directory, and removes it again.
func cutOut(t *testing.T, s log.Store, tell ledger.Tell, refused error, root string) {
	dir := filepath.Join(root, "slice")
	in, err := tools.Receive(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = excerpt.Cut(t.Context(), s, tell, in, excerpt.Options{Bodies: excerpt.Hash})
	if err == nil {
		_, err = in.Finish(io.Discard)
	}
	if refused != nil && err == nil {
		t.Errorf("a log is cut that recovery refuses: %v", refused)
	}
	if err := errors.Join(in.Drop(), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
}
