package compatible

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	amqpmessage "github.com/ledgerbus/ledgerbus/protocol/message"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/tools"
)

// TestShapes opens a directory of every shape there was: it holds what the build that wrote it
// said, comes to the same state as ever, can be worked with, and has today's format then.
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			note, theirs := readNote(t, s.name), extract(t, s.name, dir)
			x := exchange{t: t}
			before := look(t, dir)
			for _, what := range strings.Fields(s.has) {
				there := false
				switch what {
				case "room":
					there = hasRoom(t, dir)
				case "sealed":
					files, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "sealed", "*.lbs"))
					there = err == nil && len(files) >= 8
				default:
					there = bytes.Contains(before.events, []byte(`"Event":"`+what+`"`))
				}
				if !there {
					t.Errorf("has no %s", what)
				}
			}
			wantTold(t, theirs, before.events)
			if got := states(t, dir); !slices.Equal(got, note.States) {
				t.Errorf("states\n%q, want\n%q", got, note.States)
			}
			if got := x.format(dir); got != s.format {
				t.Fatalf("format %d, want %d: who only reads changes nothing", got, s.format)
			}
			b := open(t, dir)
			b.wantPeeked(note.Peeked)
			b.exchange("orders")
			b.wantPeeked(note.Peeked)
			b.close()
			after := look(t, dir)
			after.wantBehind(t, &build{name: "this build"}, before)
			if got := x.format(dir); got != shapes[len(shapes)-1].format {
				t.Errorf("format %d after a start", got)
			}
			b = open(t, dir)
			b.wantPeeked(note.Peeked)
			b.close()
		})
	}
}

// hasRoom reports whether a file ends in room.
func hasRoom(t *testing.T, dir string) bool {
	t.Helper()
	for name, p := range contents(t, dir) {
		if strings.Contains(name, "wal") && bytes.HasSuffix(p, bytes.Repeat([]byte{0xff}, 8)) {
			return true
		}
	}
	return false
}

// look verifies a directory and dumps its log.
func look(t *testing.T, dir string) view {
	t.Helper()
	var said, events bytes.Buffer
	r, err := tools.Verify(&said, dir, tools.VerifyOptions{})
	if err != nil || r.Places != 0 || len(r.Refused) != 0 {
		t.Fatalf("%v\n%s; want r.Places == 0 && len(r.Refused) == 0", err, &said)
	}
	if err := tools.Dump(&events, dir, tools.DumpOptions{Partition: -1, JSON: true, Bodies: true}); err != nil {
		t.Fatal(err)
	}
	return view{events: events.Bytes()}
}

// wantTold checks that what a build said of its log is what this one says: each event, and each of
// its members. This one may say more.
func wantTold(t *testing.T, theirs, ours []byte) {
	t.Helper()
	lines := func(p []byte) (list []map[string]any) {
		for line := range bytes.Lines(p) {
			var e map[string]any
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
		return list
	}
	want, got := lines(theirs), lines(ours)
	if len(want) != len(got) || len(want) == 0 {
		t.Fatalf("%d events, and the build that wrote them said %d", len(got), len(want))
	}
	for i := range want {
		if o, ok := got[i]["Origin"].(map[string]any); ok && got[i]["Event"] == "OriginDefined" && want[i]["Origin"] == nil {
			maps.Copy(got[i], o) // older builds put the members of an origin there
		}
		if !within(want[i], got[i]) {
			t.Fatalf("event %d was\n%v, is\n%v", i, want[i], got[i])
		}
	}
}

// renamed is what older builds print otherwise.
var renamed = map[string]string{"EntityKind 1": "Queue"}

// within reports whether all that is in one value is in the other.
func within(a, b any) bool {
	am, aIs := a.(map[string]any)
	bm, bIs := b.(map[string]any)
	if !aIs || !bIs {
		return fmt.Sprint(a) == fmt.Sprint(b)
	}
	for name, v := range am {
		if now, is := renamed[fmt.Sprint(name, " ", v)]; is {
			v = now
		}
		// older builds printed empty texts
		if is, ok := bm[name]; (ok || v != "") && !within(v, is) {
			return false
		}
	}
	return true
}

func readNote(t *testing.T, name string) (note told) {
	t.Helper()
	p, err := os.ReadFile(noteName(name))
	if err == nil {
		err = json.Unmarshal(p, &note)
	}
	if err != nil {
		t.Fatal(err)
	}
	return note
}

// states is the hash of each partition's state, by a replay of all of its log.
func states(t *testing.T, dir string) []string {
	t.Helper()
	s, err := log.Open(t.Context(), dir, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return statesOf(t, s)
}

func statesOf(t *testing.T, s log.Store) (hashes []string) {
	t.Helper()
	for _, id := range s.Partitions() {
		p, err := s.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		x := index.New()
		var dec event.Decoder
		for f, err := range p.Read(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			rest := f.Records
			for range f.Count {
				var rec event.Record
				if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
					t.Fatal(err)
				}
				for _, ev := range rec.Events {
					x.Apply(rec.At, ev)
				}
			}
		}
		hashes = append(hashes, fmt.Sprintf("%x", sha256.Sum256(x.Encode(nil))))
	}
	return hashes
}

// broker is an engine on a directory, whose clock goes on from the newest event in it.
type broker struct {
	*host.Namespace
	t       *testing.T
	store   log.Store
	replies replies
}

type replies chan engine.Reply

// Post implements engine.Sink.
func (r replies) Post(list []engine.Reply) {
	for _, reply := range list {
		r <- reply
	}
}

// since is a time of day that goes on from an instant.
type since struct{ at, began time.Time }

func (s since) Wall() time.Time        { return s.at.Add(s.Elapsed()) }
func (s since) Elapsed() time.Duration { return time.Since(s.began) }

func open(t *testing.T, dir string) *broker {
	t.Helper()
	s, err := log.Open(t.Context(), dir, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	newest := event.Time(0)
	for _, id := range s.Partitions() {
		p, err := s.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		newest = max(newest, p.Recovery().Newest)
	}
	n, err := host.Open(context.Background(), s, host.Options{Time: since{time.UnixMilli(int64(newest)), time.Now()}, Properties: amqpmessage.Properties, Reread: amqpmessage.Reread})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, t, s, make(replies, 1000)}
}

func (b *broker) close() {
	b.t.Helper()
	if err := errors.Join(b.Close(), b.store.Close()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) resolve(path string) engine.Target {
	b.t.Helper()
	target, err := b.Resolve(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return target
}

// ask submits commands and returns the replies to them.
func (b *broker) ask(to engine.Target, commands ...engine.Command) []engine.Reply {
	b.t.Helper()
	var list []engine.Request
	for _, c := range commands {
		list = append(list, engine.Request{Sink: b.replies, Command: c})
	}
	b.Submit(to.Host(0), list)
	return b.wait(len(list))
}

func (b *broker) wait(n int) (got []engine.Reply) {
	b.t.Helper()
	for range n {
		r := <-b.replies
		if r.Err != nil {
			b.t.Fatal(r.Err)
		}
		got = append(got, r)
	}
	return got
}

// wantPeeked checks that every place has as many messages as it had.
func (b *broker) wantPeeked(want map[string]int) {
	b.t.Helper()
	got := map[string]int{}
	for place := range want {
		target := b.resolve(place)
		for from := event.SequenceNumber(1); ; {
			list := b.ask(target, &engine.Peek{Slice: target.Slice(0), SubQueue: target.SubQueue, From: from, Count: 100, MaxBytes: 1 << 20})[0].Messages()
			if len(list) == 0 {
				break
			}
			got[place] += len(list)
			from = list[len(list)-1].Sequence + 1
		}
		if _, ok := got[place]; !ok {
			got[place] = 0
		}
	}
	if !cmp.Equal(got, want) {
		b.t.Errorf("messages: %v, want %v (-want +got):\n%s", got, want, cmp.Diff(want, got))
	}
}

// exchange sends a message to a queue, receives all there is to be received, and completes the one
// that it sent.
func (b *broker) exchange(queue string) {
	b.t.Helper()
	q := b.resolve(queue)
	const body = "\x00Ss\xc0\x05\x01\xa1\x02id" // properties with a message-id alone
	b.ask(q, &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: []byte("sent by today's"), Body: []byte(body)}}})
	r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: b.replies}
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 1000, Drain: true}}})
	var given []*engine.Delivery
	for reply := b.wait(1)[0]; reply.Kind != engine.ReplyDrained; reply = b.wait(1)[0] {
		given = append(given, reply.Delivery())
	}
	found := 0
	for _, d := range given {
		got := make([]byte, d.Body.Size)
		if _, err := b.ReadInto(q.Host(0), d.Body, got); err != nil {
			b.t.Fatalf("message %d: %v", d.Sequence, err)
		}
		settle := &engine.Settle{Entity: q.Entity, Slice: q.Slice(0), Token: d.Token, Outcome: engine.Release}
		if string(got) == body {
			found++
			settle.Outcome = engine.Complete
		}
		b.ask(q, settle)
	}
	if found != 1 {
		b.t.Errorf("received what was sent %d times", found)
	}
	b.ask(q, &engine.Detach{Receiver: r})
}

// TestShapesCrash ends the first start of each directory at each of its calls that change the disk:
// the next start opens it, with the state it had.
func TestShapesCrash(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			disk := load(t, s.name)
			want := readNote(t, s.name).States
			formats := map[int]int{}
			for k, done := 1, false; !done; k++ {
				for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
					d := disk.Clone()
					crashAtChange(d, k)
					done = lead(t, d, 2) == nil
					d.Hook(nil)
					d = d.Crash(rand.New(rand.NewPCG(uint64(k), 1)), mode)
					n := reopen(t, d, want)
					formats[n.Format]++
					if err := lead(t, d, 3); err != nil {
						t.Fatalf("change %d, %v: %v", k, mode, err)
					}
					if n := reopen(t, d, want); n.Format != 2 {
						t.Fatalf("change %d, %v: format %d", k, mode, n.Format)
					}
				}
			}
			if s.format == 1 && formats[1] == 0 || formats[2] == 0 {
				t.Errorf("found formats %v", formats)
			}
		})
	}
}

const diskDir = "/data"

// load puts a directory of testdata onto a simulated disk, durably.
func load(t *testing.T, name string) *faultfs.FS {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	extract(t, name, dir)
	disk := faultfs.New()
	made := map[string]bool{}
	var dirs func(path string)
	dirs = func(path string) {
		if path == "/" || made[path] {
			return
		}
		dirs(filepath.Dir(path))
		made[path] = true
		if err := errors.Join(disk.Mkdir(path), disk.SyncDir(filepath.Dir(path))); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := diskDir + strings.TrimPrefix(path, dir)
		if e.IsDir() {
			dirs(at)
			return nil
		}
		p, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return disk.WriteFile(at, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// crashAtChange ends the machine at the k-th call that changes something.
func crashAtChange(d *faultfs.FS, k int) {
	reads := []faultfs.Op{faultfs.OpOpen, faultfs.OpReadDir, faultfs.OpStat, faultfs.OpLock, faultfs.OpRead, faultfs.OpClose, faultfs.OpSize}
	d.Hook(func(c faultfs.Call) faultfs.Fault {
		if !slices.Contains(reads, c.Op) {
			k--
		}
		if k <= 0 {
			return faultfs.Fault{Err: faultfs.ErrCrashed}
		}
		return faultfs.Fault{}
	})
}

// lead opens a directory and leads all of its partitions, in the given boot of the machine.
func lead(t *testing.T, d *faultfs.FS, boot int) error {
	s, err := log.Open(t.Context(), diskDir, log.Options{FS: d, Manual: true, BootID: fmt.Sprint("boot ", boot)})
	if err != nil {
		return err
	}
	var writers []io.Closer
	for _, id := range s.Partitions() {
		p, err := s.Open(t.Context(), id)
		if err != nil {
			return err
		}
		w, err := p.Lead(t.Context())
		if err != nil {
			return errors.Join(err, s.Close())
		}
		writers = append(writers, w)
	}
	var errs []error
	for _, w := range writers {
		errs = append(errs, w.Close())
	}
	return errors.Join(append(errs, s.Close())...)
}

// reopen looks at a directory whose state must be as it was.
func reopen(t *testing.T, d *faultfs.FS, want []string) format.Namespace {
	t.Helper()
	s, err := log.Open(t.Context(), diskDir, log.Options{FS: d, Manual: true, ReadOnly: true, BootID: "boot 3"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := statesOf(t, s); !slices.Equal(got, want) {
		t.Fatalf("states\n%q, want\n%q", got, want)
	}
	return s.Namespace()
}
