package log_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

const namespaceFile = simDir + "/namespace.json"

// namespaceText returns a namespace.json with good sums. words is the list of capabilities; ""
// leaves out the members of format 2.
func namespaceText(format int, words string) string {
	const id, created = "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "2001-09-09T01:46:40Z"
	sum := func(text string) string { return fmt.Sprintf("%08x", event.Sum([]byte(text))) }
	text := fmt.Sprintf(`{"format":%d,"namespace":%q,"partitions":1,"created":%q,"sum":%q`, format, id, created, sum(fmt.Sprintf("%d %s 1 %s", format, id, created)))
	if words != "" {
		list := strings.Join(append([]string{id}, strings.FieldsFunc(words, func(r rune) bool { return strings.ContainsRune(`[]",`, r) })...), " ")
		text += fmt.Sprintf(`,"capabilities":%s,"capabilitiesSum":%q`, words, sum(list))
	}
	return text + "}\n"
}

// TestNamespaceText: valid contents of namespace.json, and contents that are damage or newer than
// this program, which here knows the capabilities moves and sealed.
func TestNamespaceText(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var words []string
		for i := range n {
			words = append(words, fmt.Sprintf(`"w%03d"`, i))
		}
		return "[" + strings.Join(words, ",") + "]"
	}
	const ok, newer, damaged = "", "newer data format", "namespace.json at byte 0 (LSN 0): damaged: "
	replaced := func(text, from, to string) string { return strings.Replace(text, from, to, 1) }
	for name, test := range map[string]struct{ text, want string }{
		"format 1":                      {namespaceText(1, ""), ok},
		"format 2":                      {namespaceText(2, "[]"), ok},
		"known capabilities":            {namespaceText(2, `["moves","sealed"]`), ok},
		"a newer format":                {namespaceText(3, "[]"), newer},
		"a newer format, more members":  {replaced(namespaceText(3, ""), "}", `,"more":[1]}`), newer},
		"an unknown capability":         {namespaceText(2, `["moves","partitioned"]`), `: the directory uses "partitioned"`},
		"as many words as there may be": {namespaceText(2, many(64)), `: the directory uses "w000"`},
		"format 0":                      {namespaceText(0, ""), damaged + "contents"},
		"format 1 with capabilities":    {namespaceText(1, "[]"), damaged + "not as it was written"},
		"format 2 without":              {namespaceText(2, ""), damaged + "checksum of the capabilities"},
		"null":                          {replaced(namespaceText(2, "[]"), "[]", "null"), damaged + "not as it was written"},
		"descending":                    {namespaceText(2, `["sealed","moves"]`), damaged + "contents"},
		"twice":                         {namespaceText(2, `["moves","moves"]`), damaged + "contents"},
		"an upper-case letter":          {namespaceText(2, `["Moves"]`), damaged + "contents"},
		"an empty word":                 {namespaceText(2, `["a",""]`), damaged + "checksum of the capabilities"},
		"a long word":                   {namespaceText(2, `["`+strings.Repeat("a", 33)+`"]`), damaged + "contents"},
		"too many words":                {namespaceText(2, many(65)), damaged + "contents"},
		"a word changed":                {replaced(namespaceText(2, `["moves"]`), "moves", "movet"), damaged + "checksum of the capabilities"},
		"a word gone":                   {replaced(namespaceText(2, `["moves"]`), `"moves"`, ""), damaged + "checksum of the capabilities"},
		"another format":                {replaced(namespaceText(2, "[]"), `"format":2`, `"format":1`), damaged + "checksum"},
		"a blank":                       {replaced(namespaceText(2, "[]"), ",", ", "), damaged + "not as it was written"},
		"too long":                      {namespaceText(2, "[]") + strings.Repeat(" ", 1<<16), damaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name, 1)
			if err := w.open(); err != nil {
				t.Fatal(err)
			}
			if err := w.fs.WriteFile(namespaceFile, []byte(test.text)); err != nil {
				t.Fatal(err)
			}
			w.fs = w.fs.Clone()
			w.opts.Capabilities = []string{"moves", "sealed"}
			err := w.open()
			if test.want == ok && err != nil || test.want != ok && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Fatalf("%v, want %q", err, test.want)
			}
			var c *log.CorruptError
			if is := errors.As(err, &c); is != strings.HasPrefix(test.want, damaged) || is == errors.Is(err, log.ErrFormat) && err != nil {
				t.Errorf("%v: corruption %t", err, is)
			}
			s, other := log.OpenSurvey(simDir, log.Options{FS: w.fs.Clone(), Capabilities: w.opts.Capabilities})
			if errors.Is(err, log.ErrFormat) != errors.Is(other, log.ErrFormat) {
				t.Errorf("survey: %v, start: %v", other, err)
			}
			if other == nil {
				s.Close()
			}
		})
	}
}

// TestNamespaceBits flips every bit of namespace.json, of those in its format digit and its words
// too: that is damage, never a newer format, and never another namespace.
func TestNamespaceBits(t *testing.T) {
	t.Parallel()
	w, _ := quiet(t, -1)
	w.opts.Capabilities = []string{"moves", "sealed"}
	for _, text := range []string{namespaceText(1, ""), namespaceText(2, "[]"), namespaceText(2, `["moves"]`)} {
		for bit := range 8 * len(text) {
			w.on(w.fs, func(w *world) {
				if err := w.fs.WriteFile(namespaceFile, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if bit == 0 {
					if err := w.open(); err != nil {
						w.failf("%s: %v", text, err)
					}
					w.store.Close()
				}
				w.fs.Flip(namespaceFile, int64(bit/8), 1<<(bit%8))
				var c *log.CorruptError
				if err := w.open(); !errors.As(err, &c) || !c.All || c.File != "namespace.json" || errors.Is(err, log.ErrFormat) {
					w.failf("bit %d of byte %d (%q): %v", bit%8, bit/8, text[bit/8], err)
				}
			})
		}
	}
}

// old turns the directory of a world into one of format 1. Everything else is the same in both
// formats.
func (w *world) old() {
	if err := w.fs.WriteFile(namespaceFile, []byte(namespaceText(1, ""))); err != nil {
		w.t.Fatal(err)
	}
}

// TestRaise: the first run that leads a directory of format 1 raises it before it writes anything
// else, and one that only reads does not.
func TestRaise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 3)
	if err := errors.Join(w.life(), w.stop()); err != nil {
		t.Fatal(err)
	}
	w.old()
	w.opts.ReadOnly = true
	if err := w.open(); err != nil || w.store.Namespace().Format != 1 {
		t.Fatalf("%+v %+v; want w.store.Namespace().Format == 1", err, w.store.Namespace())
	}
	if _, err := w.part.Lead(ctx); !errors.Is(err, log.ErrReadOnly) {
		t.Fatalf("%+v; want errors.Is(err, log.ErrReadOnly)", err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.opts.ReadOnly = false
	if err := w.open(); err != nil { // the verdicts; nothing is written yet
		t.Fatal(err)
	}
	if text := must(w.fs.ReadFile(namespaceFile))(t); string(text) != namespaceText(1, "") {
		t.Fatalf("opening it made %s", text)
	}
	changes := []faultfs.Op{faultfs.OpCreate, faultfs.OpEdit, faultfs.OpMkdir, faultfs.OpRename, faultfs.OpRemove, faultfs.OpTruncate, faultfs.OpWrite, faultfs.OpSync, faultfs.OpSyncDir}
	var calls []string
	w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
		if slices.Contains(changes, c.Op) {
			calls = append(calls, fmt.Sprint(c.Op, strings.TrimPrefix(c.Name, simDir)))
		}
		return faultfs.Fault{}
	})
	if err := w.lead(); err != nil {
		t.Fatal(err)
	}
	w.fs.Hook(nil)
	want := []string{"create/namespace.json.tmp", "write/namespace.json.tmp", "sync/namespace.json.tmp", "rename/namespace.json.tmp", "syncdir", "remove/clean"}
	if len(calls) < len(want) || !slices.Equal(calls[:len(want)], want) {
		t.Errorf("a start begins with %q", calls[:min(len(want), len(calls))])
	}
	if text := must(w.fs.ReadFile(namespaceFile))(t); string(text) != namespaceText(2, "[]") || w.store.Namespace().Format != 2 {
		t.Errorf("raised to %s", text)
	}
}

// TestRaiseCrashesAnywhere: whatever a start that raises the format dies of, at any call, the next
// one opens the directory, in one format or the other, and loses nothing.
func TestRaiseCrashesAnywhere(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		base := newWorld(t, t.Name(), 4)
		if err := base.life(); err != nil {
			t.Fatal(err)
		}
		if clean {
			if err := base.stop(); err != nil {
				t.Fatal(err)
			}
		}
		base.fs = base.fs.Crash(base.rng, faultfs.Kill)
		base.boot++
		base.old()
		formats := map[int]int{}
		for k, done := 1, false; !done; k++ {
			for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
				base.on(base.fs, func(w *world) {
					w.name = fmt.Sprintf("clean %t, call %d, %v", clean, k, mode)
					w.fs.CrashAt(k)
					done = errors.Join(w.open(), leadIfOpen(w)) == nil
					w.fs.Hook(nil)
					w.fs = w.fs.Crash(rand.New(rand.NewPCG(uint64(k), 1)), mode)
					if mode == faultfs.PowerLoss {
						w.boot, w.safe = w.boot+1, 0
					}
					if err := w.open(); err != nil {
						w.failf("%v", err)
					}
					formats[w.store.Namespace().Format]++
					if err := w.lead(); err != nil {
						w.failf("%v", err)
					}
					if n := w.store.Namespace(); n.Format != 2 {
						w.failf("led in format %d", n.Format)
					}
					for _, name := range w.fs.Files(simDir) {
						if strings.HasSuffix(name, ".json.tmp") {
							w.failf("left %s", name)
						}
					}
				})
			}
		}
		if formats[1] == 0 || formats[2] == 0 {
			t.Errorf("clean %t: found formats %v", clean, formats)
		}
	}
}

func leadIfOpen(w *world) error {
	if w.part == nil {
		return errors.New("not open")
	}
	return w.lead()
}

// TestRaiseFails: where the format cannot be raised nothing else is written, and a later start does
// it.
func TestRaiseFails(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		for k := range 5 {
			w := newWorld(t, fmt.Sprintf("%v at call %d", cause, k), 5)
			if err := errors.Join(w.life(), w.stop()); err != nil {
				t.Fatal(err)
			}
			w.old()
			if err := w.open(); err != nil {
				t.Fatal(err)
			}
			w.fs.FailAt(k+1, faultfs.Fault{Err: cause}, false)
			if err := w.lead(); !errors.Is(err, log.ErrPoisoned) || !errors.Is(err, cause) {
				w.failf("%v", err)
			}
			w.fs.Hook(nil)
			if err := w.lead(); !errors.Is(err, log.ErrPoisoned) {
				w.failf("led again: %v", err)
			}
			if files := w.fs.Files(simDir); !slices.Contains(files, simDir+"/clean") || slices.Contains(files, namespaceFile+".tmp") {
				w.failf("left %q", files)
			}
			w.store.Close()
			w.boot++
			if err := errors.Join(w.open(), w.lead()); err != nil {
				w.failf("%v", err)
			}
		}
	}
}

// TestUse: the first use of a capability is durable when Use returns, whatever happens then, and is
// there or not before that. A program that does not know the word is told so, and one that does
// opens the directory.
func TestUse(t *testing.T) {
	t.Parallel()
	base := newWorld(t, t.Name(), 6)
	if err := errors.Join(base.life(), base.stop()); err != nil {
		t.Fatal(err)
	}
	words := []string{"sealed", "base", "moves", "base"}
	known := []string{"base", "moves", "sealed"}
	for k, done := 1, 0; done < len(words); k++ {
		for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
			base.on(base.fs, func(w *world) {
				w.name, w.opts.Capabilities = fmt.Sprintf("call %d, %v", k, mode), known
				if err := errors.Join(w.open(), w.lead()); err != nil {
					w.failf("%v", err)
				}
				w.fs.CrashAt(k)
				for done = 0; done < len(words) && w.store.Use(words[done]) == nil; done++ {
				}
				w.fs.Hook(nil)
				w.fs = w.fs.Crash(rand.New(rand.NewPCG(uint64(k), 1)), mode)
				w.boot++
				w.wantCapabilities(words[:done], words[:min(done+1, len(words))])
			})
		}
	}
}

// wantCapabilities opens the directory, and demands that its capabilities are used, or else maybe.
func (w *world) wantCapabilities(used, maybe []string) {
	w.t.Helper()
	sorted := func(words []string) []string { return slices.Compact(slices.Sorted(slices.Values(words))) }
	if err := w.open(); err != nil {
		w.failf("%v", err)
	}
	got := w.store.Namespace().Capabilities
	if !slices.Equal(got, sorted(used)) && !slices.Equal(got, sorted(maybe)) {
		w.failf("%q is in use, of %q used and %q tried", got, used, maybe)
	}
	if err := w.store.Close(); err != nil {
		w.failf("%v", err)
	}
	w.opts.Capabilities = []string{"base", "marks", "sealed"}
	if err := w.open(); slices.Contains(got, "moves") != errors.Is(err, log.ErrFormat) || err != nil && !strings.Contains(err.Error(), `"moves"`) {
		w.failf("%q is in use, moves is not known: %v", got, err)
	}
}

// TestUseAtOnce: several first uses at a time are all there, none twice, and later ones cost
// nothing.
func TestUseAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 7)
	w.opts.Capabilities = []string{"base", "marks", "moves", "sealed"}
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if err := w.store.Use(w.opts.Capabilities[i%3]); err != nil {
				t.Error(err)
			}
			_ = w.store.Namespace()
		})
	}
	wg.Wait()
	if text := must(w.fs.ReadFile(namespaceFile))(t); string(text) != namespaceText(2, `["base","marks","moves"]`) {
		t.Errorf("%s; want string(text) == namespaceText(2, `[\"base\",\"marks\",\"moves\"]`)", text)
	}
	calls := w.fs.Calls()
	if err := w.store.Use("marks"); err != nil || w.fs.Calls() != calls {
		t.Errorf("used again: %v, %d calls", err, w.fs.Calls()-calls)
	}
	w.fs.Limit(w.fs.Used() + 1)
	if err := w.store.Use("sealed"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	w.fs.Limit(0)
	if err := errors.Join(w.store.Use("sealed"), w.w.Close(), w.store.Close()); err != nil {
		t.Error(err)
	}
	if err := w.store.Use("moves"); !errors.Is(err, log.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	w.wantCapabilities(w.opts.Capabilities, nil)
}

// TestUseRefuses: a word that this program does not know is refused, and any word in a store that
// is read-only.
func TestUseRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 8)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Use("marks"); err == nil || !strings.Contains(err.Error(), `no capability "marks"`) {
		t.Errorf("%+v; want err != nil && strings.Contains(err.Error(), `no capability \"marks\"`)", err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.opts.ReadOnly, w.opts.Capabilities = true, []string{"moves"}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Use("moves"); !errors.Is(err, log.ErrReadOnly) {
		t.Errorf("%+v; want errors.Is(err, log.ErrReadOnly)", err)
	}
	w.opts.Capabilities = []string{"moves", "Base"}
	w.store.Close()
	if err := w.open(); err == nil {
		t.Error("opened with capabilities that may not stand in namespace.json")
	}
}
