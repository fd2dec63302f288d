package format

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// needsZstd leaves a test out where Python has no module for zstd; with CI=true that is a failure.
func needsZstd(t *testing.T) {
	t.Helper()
	if err := exec.Command("python3", "-c", "import zstandard").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Python has no module zstandard: ", err)
		}
		t.Skip("Python has no module zstandard (Debian: python3-zstandard): ", err)
	}
}

// seal makes sealed files of all chapters of a directory but the newest, and has drop take bodies
// out of them, if there is one.
func seal(t *testing.T, dir string, drop func(log.Partition)) (files []string) {
	t.Helper()
	d := logdir.Open(t, dir, log.Options{Manual: true, SealAfter: -1})
	p, _ := d.Lead(0)
	for more := true; more; {
		var err error
		if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "sealed", "*.lbs"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d sealed files, %v", len(files), err)
	}
	if drop != nil {
		drop(p)
	}
	d.Close()
	return files
}

// TestSealed: sealed files are the same to both readers, with all bodies and without some, and so
// is damage to them.
func TestSealed(t *testing.T) {
	t.Parallel()
	needsZstd(t)
	dir := queue(t, "")
	raw := agree(t, dir)
	files := seal(t, dir, nil)
	if got := agree(t, dir); strings.Join(got, "") != strings.Join(raw, "") {
		t.Error("a log reads otherwise when it is sealed")
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 40 {
		name := files[r.IntN(len(files))]
		damage(t, dir, name, r)
	}
	agree(t, dir)
}

// damage changes a byte of a file for a moment: both readers name the file.
func damage(t *testing.T, dir, name string, r *rand.Rand) {
	t.Helper()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	changed := append([]byte(nil), whole...)
	at := r.IntN(len(changed))
	changed[at] ^= byte(1 + r.IntN(255))
	if err := os.WriteFile(name, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := tools.Verify(io.Discard, dir, tools.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := read(t, dir); code != 1 || !strings.Contains(errs, name+": offset ") || report.Places == 0 {
		t.Errorf("byte %d of %s: %d damaged places to verify; exit code %d: %s", at, filepath.Base(name), report.Places, code, errs)
	}
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestErased: bodies that a sealed file does not keep any more are so to both readers.
func TestErased(t *testing.T) {
	t.Parallel()
	needsZstd(t)
	dir := queue(t, "")
	n := 0
	seal(t, dir, func(p log.Partition) {
		for _, s := range p.Segments() {
			if !strings.HasSuffix(s.File, ".lbs") {
				continue
			}
			if _, err := p.(log.Compactor).DropBodies(t.Context(), s.File, func(*log.Body) bool { n++; return n%3 == 0 }, -1<<20); err != nil && !errors.Is(err, log.ErrTooLittle) {
				t.Fatalf("%v; want no error or log.ErrTooLittle", err)
			}
		}
	})
	agree(t, dir)
	if out, _, _ := read(t, dir, "--bodies"); !strings.Contains(out, `"BodyErased":true`) || !strings.Contains(out, `"Body":"body `) {
		t.Errorf("bodies of %d were asked for; none is erased, or all are", n)
	}
}

// TestBase: a log that begins with a base, with sealed files in front of which something was
// removed and with bodies that are gone, is the same to both readers, and so is damage to the base.
func TestBase(t *testing.T) {
	t.Parallel()
	needsZstd(t)
	dir := queue(t, "")
	env := event.Envelope{Slice: event.Slice{Entity: 4}, Origin: 1}
	d := logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 2 << 10, ChapterBytes: 5 << 10})
	_, w := d.Lead(0)
	d.Append(w, 1_900_000_009_000, &event.OriginDefined{ID: 1, Origin: event.Origin{Connection: 1, Principal: "RootManage"}})
	for n := event.SequenceNumber(5); n <= 24; n += 2 { // message 3 waits, in an old file
		d.Append(w, 1_900_000_009_000, &event.MessageCompleted{Envelope: env, Sequence: n, Token: event.LockToken{1, byte(n)}})
	}
	d.Close()
	whole := agree(t, dir)
	seal(t, dir, func(p log.Partition) {
		cutAll(t, p)
		// it is a file of bodies by now
		p.(log.Compactor).DropBodies(t.Context(), p.Segments()[0].File, func(b *log.Body) bool { return b.Message.Sequence == 3 }, 1)
	})
	if rest := agree(t, dir); len(rest) == 0 || len(rest) >= len(whole) || strings.Join(rest, "") != strings.Join(whole[len(whole)-len(rest):], "") {
		t.Errorf("%d of %d events are left, or others", len(rest), len(whole))
	}
	bases, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "base", "*.lbb"))
	if err != nil || len(bases) != 1 {
		t.Fatalf("%+v %+v; want len(bases) == 1", bases, err)
	}
	good, err := os.ReadFile(bases[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(good); at += max(1, len(good)/12) {
		bad := append([]byte(nil), good...)
		bad[at] ^= 16
		if err := os.WriteFile(bases[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs, code := read(t, dir); code != 1 || !strings.Contains(errs, bases[0]) {
			t.Errorf("byte %d of the base: exit code %d: %s", at, code, errs)
		}
	}
}

// TestFileOfBodies: of a log that begins with a base, with files in front of it of which a few
// bodies are left, both readers say the same, and find damage to those.
func TestFileOfBodies(t *testing.T) {
	t.Parallel()
	needsZstd(t)
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 20 << 10, ChapterBytes: 40 << 10})
	_, w := d.Lead(0)
	env := event.Envelope{Slice: event.Slice{Entity: 4}, Origin: 1}
	at := event.Time(1_900_000_000_000)
	d.Append(w, at, &event.OriginDefined{ID: 1, Origin: event.Origin{Connection: 1, Principal: "RootManage"}},
		&event.EntityCreated{Envelope: env, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}})
	r := rand.New(rand.NewPCG(71, 71))
	var left []event.Blob
	for n := range event.SequenceNumber(120) {
		body := make([]byte, 1000)
		for i := range body {
			body[i] = byte(r.Uint32())
		}
		m := &event.MessageEnqueued{Envelope: env, Sequence: n + 1, MessageID: []byte("m"), EnqueuedAt: at, Body: event.Blob{Data: body}}
		d.Append(w, at, m)
		if n%30 < 2 {
			left = append(left, m.Body)
			continue
		}
		d.Append(w, at, &event.MessageReceivedAndDeleted{Envelope: env, Sequence: n + 1})
	}
	d.Close()
	d = logdir.Open(t, dir, log.Options{Manual: true, SealAfter: -1})
	p, _ := d.Lead(0)
	// of one chapter; others go as they are
	if more, err := p.(log.Sealer).Seal(t.Context()); err != nil || !more {
		t.Fatalf("%v, %v", more, err)
	}
	cutAll(t, p)
	for _, b := range left {
		if got, err := p.ReadBlob(b, nil); err != nil || !b.Matches(got) {
			t.Errorf("the body at %d: %v", b.Position, err)
		}
	}
	d.Close()
	agree(t, dir)
	files, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "sealed", "*.lbs"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		whole, err := os.ReadFile(name)
		if err != nil || whole[4] != 2 {
			t.Fatalf("%s is no file of bodies; %v", name, err)
		}
		for range 20 {
			damage(t, dir, name, r)
		}
	}
	agree(t, dir)
}

// cutAll has a base made of the end of a log, and what is in front of it cut.
func cutAll(t *testing.T, p log.Partition) {
	t.Helper()
	s := replay.Begin(p)
	if err := s.Run(t.Context(), replay.Watch{}); err != nil {
		t.Fatal(err)
	}
	_, end := p.Bounds()
	err := p.SaveCheckpoint(end, func(w io.Writer) error { _, err := w.Write(s.Index.Encode(nil)); return err })
	if err == nil {
		_, err = replay.Cut(t.Context(), p, end, true)
	}
	if err != nil {
		t.Fatal(err)
	}
}
