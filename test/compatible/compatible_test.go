package compatible

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

var base = flag.String("base", "", "commit whose build is the other one; none: this one")

// build is the programs of one commit.
type build struct {
	name   string
	broker string // path of the binary
	state  string // path of the program of package state
	format int    // of the data directories it makes, the newest that it knows
}

// TestCompatible has each of two builds open what the other has written, and refuse what has a
// format that is newer than it.
func TestCompatible(t *testing.T) {
	t.Parallel()
	this := &build{name: "this build"}
	this.make(t, top(t))
	exchanges := []exchange{{writer: this, opener: this}}
	if *base != "" {
		other := &build{name: "the build of " + *base}
		other.make(t, worktree(t, *base))
		exchanges = []exchange{{writer: other, opener: this}, {writer: this, opener: other}}
	}
	for _, x := range exchanges {
		t.Run("written by "+x.writer.name+", opened by "+x.opener.name, func(t *testing.T) {
			t.Parallel()
			x.t = t
			killed := filepath.Join(t.TempDir(), "data")
			write(t, x.writer.broker, killed)
			x.wantEveryKind(killed)
			stopped := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(stopped, os.DirFS(killed)); err != nil {
				t.Fatal(err)
			}
			x.open(x.writer, stopped)
			if got := x.format(killed); got != x.writer.format {
				t.Errorf("format %d is written, and %d into a new directory", got, x.writer.format)
			}
			x.pass(killed)
			x.pass(stopped)
		})
	}
}

// top is the directory of the repository.
func top(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// worktree checks a commit out into a directory of the test, with the source of package state of
// today.
func worktree(t *testing.T, commit string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "base")
	command(t, top(t), "git", "worktree", "add", "--detach", dir, commit)
	t.Cleanup(func() { command(t, top(t), "git", "worktree", "remove", "--force", dir) })
	src := filepath.Join(dir, "test", "compatible", "state")
	if err := os.RemoveAll(src); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(src, os.DirFS("state")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (b *build) make(t *testing.T, source string) {
	t.Helper()
	dir := t.TempDir()
	b.broker, b.state = filepath.Join(dir, "ledgerbus"), filepath.Join(dir, "state")
	command(t, source, "go", "build", "-o", b.broker, "./cmd/ledgerbus")
	command(t, source, "go", "build", "-o", b.state, "./test/compatible/state")
	x := exchange{t: t, writer: b}
	empty := filepath.Join(dir, "data")
	x.open(b, empty)
	b.format = x.format(empty)
}

// command runs a program and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(name, args...) // not with the test's context, which ends before it cleans up
	c.Dir, c.Stdout, c.Stderr = dir, &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, &out, &errs)
	}
	return out.Bytes()
}

// exchange is a directory that goes from one build to another.
type exchange struct {
	t              *testing.T
	writer, opener *build
}

// format is that of a directory.
func (x *exchange) format(dir string) int {
	x.t.Helper()
	var n struct{ Format int }
	p, err := os.ReadFile(filepath.Join(dir, "namespace.json"))
	if err == nil {
		err = json.Unmarshal(p, &n)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return n.Format
}

// pass has the other build open a directory, and then the one that wrote it.
func (x *exchange) pass(dir string) {
	x.t.Helper()
	seen := x.look(dir)
	for _, b := range []*build{x.opener, x.writer} {
		before := x.format(dir)
		if before > b.format {
			x.refuse(b, dir)
			continue
		}
		x.open(b, dir)
		if got := x.format(dir); got != b.format {
			x.t.Errorf("%s made format %d of %d, and makes new directories of format %d", b.name, got, before, b.format)
		}
		now := x.look(dir)
		now.wantBehind(x.t, b, seen)
		seen = now
	}
	x.t.Logf("%d events, %d states, %d checkpoints", bytes.Count(seen.events, []byte("\n")), bytes.Count(seen.states, []byte("\n")), seen.checkpoints)
}

// open starts a broker on a directory, as a restart does, and stops it.
func (x *exchange) open(b *build, dir string) {
	x.t.Helper()
	p := harness.NewProcess(b.broker, dir, "--log-level", "warn")
	if _, err := p.Start(); err != nil {
		x.t.Fatalf("%s: %v", b.name, err)
	}
	if err := p.Stop(); err != nil {
		x.t.Fatalf("%s: %v", b.name, err)
	}
}

// exitFormat is the exit code of a program that meets data of a newer version.
const exitFormat = 7

// refuse checks that a build that does not know the format of a directory says so, whatever it is
// to do with it, and changes nothing.
func (x *exchange) refuse(b *build, dir string) {
	x.t.Helper()
	before := contents(x.t, dir)
	for _, args := range [][]string{{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, {"log", "verify", dir}, {"log", "dump", dir}} {
		out, err := exec.Command(b.broker, args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFormat || !bytes.Contains(out, []byte("namespace.json")) {
			x.t.Errorf("%s, which knows format %d, about format %d: %s: %v, want exit code %d\n%s",
				b.name, b.format, x.format(dir), strings.Join(args[:len(args)-1], " "), err, exitFormat, out)
		}
	}
	if !maps.EqualFunc(before, contents(x.t, dir), bytes.Equal) {
		x.t.Errorf("%s refused the directory and changed it", b.name)
	}
	x.t.Logf("%s refuses format %d", b.name, x.format(dir))
}

// contents is all files of a directory, by path.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// view is what is to be seen in a directory.
type view struct {
	events      []byte // a line each
	states      []byte // … for each frame
	checkpoints int
}

// look has the builds that know its format read a directory: they must see the same in it, no
// damage, and in every checkpoint the state that the log has there.
func (x *exchange) look(dir string) view {
	x.t.Helper()
	var views []view
	for _, b := range []*build{x.writer, x.opener} {
		if x.format(dir) > b.format {
			continue
		}
		var v view
		// compares the states of checkpoints with those of the log
		command(x.t, "", b.broker, "log", "verify", dir)
		v.events = command(x.t, "", b.broker, "log", "dump", "--output", "json", "--bodies", dir)
		var frames, checkpoints []string
		ends := map[string]string{} // by partition: the state of its log
		for line := range strings.Lines(string(command(x.t, "", b.state, dir))) {
			place, hash, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if id, ok := strings.CutPrefix(place, "checkpoint of "); ok {
				checkpoints = append(checkpoints, line)
				id, _, _ = strings.Cut(id, " at ")
				if end := hash[strings.LastIndexByte(hash, ' ')+1:]; end != ends[id] {
					x.t.Errorf("%s: the log of %s comes to state %s, and from its checkpoint on to %s", b.name, id, ends[id], end)
				}
				continue
			}
			frames = append(frames, line)
			id, _, _ := strings.Cut(place, " LSN ")
			ends[id] = hash
		}
		v.states, v.checkpoints = []byte(strings.Join(append(frames, checkpoints...), "")), len(checkpoints)
		views = append(views, v)
	}
	a, b := &views[0], &views[len(views)-1]
	if !bytes.Equal(a.states, b.states) {
		x.t.Errorf("%s and %s come to different states:\n%s", x.writer.name, x.opener.name, firstDifference(a.states, b.states))
	}
	if !bytes.Equal(a.events, b.events) {
		x.t.Errorf("%s and %s read different events:\n%s", x.writer.name, x.opener.name, firstDifference(a.events, b.events))
	}
	return views[0]
}

// wantBehind checks that all that was there before a build opened the directory is still there, in
// its order, and came to the same states.
func (v view) wantBehind(t *testing.T, by *build, before view) {
	t.Helper()
	for _, c := range [...]struct {
		what          string
		before, after []byte
	}{{"events", before.events, v.events}, {"states", before.states, v.states}} {
		after := slices.Collect(strings.Lines(string(c.after)))
		for line := range strings.Lines(string(c.before)) {
			if strings.HasPrefix(line, "checkpoint ") {
				continue // the newest two are kept
			}
			i := slices.Index(after, line)
			if i < 0 {
				t.Fatalf("%s had the directory open, and of the %s is gone:\n%s", by.name, c.what, line)
			}
			after = after[i+1:]
		}
	}
}

func firstDifference(a, b []byte) string {
	as, bs := slices.Collect(strings.Lines(string(a))), slices.Collect(strings.Lines(string(b)))
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return as[i] + bs[i]
		}
	}
	return strings.Join(append(as[min(len(as), len(bs)):], bs[min(len(as), len(bs)):]...), "")
}

// seldom are events that a short life of a broker does not meet, and those of capabilities, which
// the other build may not know.
var seldom = []event.Kind{event.KindClockSet, event.KindEntityTouched, event.KindTransactionCommitted, event.KindTransactionAborted,
	event.KindTransferStarted, event.KindMessageHandedOver, event.KindTransfersFinished, event.KindTransferFailed, event.KindSourceForgotten,
	event.KindBackupMarked, event.KindBodyErased, event.KindHistoryPolicySet}

// wantEveryKind checks that a directory has every kind of event: nothing is shown of a kind that is
// not in it.
func (x *exchange) wantEveryKind(dir string) {
	x.t.Helper()
	found := map[string]bool{}
	for line := range bytes.Lines(command(x.t, "", x.writer.broker, "log", "dump", "--output", "json", dir)) {
		var e struct{ Event string }
		if err := json.Unmarshal(line, &e); err != nil {
			x.t.Fatal(err)
		}
		found[e.Event] = true
	}
	for k := event.Kind(1); k <= event.KindClockSet; k++ {
		if event.KindSliceRestored <= k && k <= event.KindCatalogueRestored {
			continue // stands in a base, in no log
		}
		if name := k.String(); name != "" && !found[name] && !slices.Contains(seldom, k) {
			x.t.Errorf("%s wrote no %s", x.writer.name, name)
		}
	}
}
