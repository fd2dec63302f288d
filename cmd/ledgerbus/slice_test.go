package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/history"
	"github.com/ledgerbus/ledgerbus/tools"
)

// A slice of a broker's directory gives the same answers as the whole directory, and a broker can
// start on it and deliver its messages.
func TestSlice(t *testing.T) {
	data := past(t)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	r := execute(t, "", "", "slice", data, "--into", whole, "--bodies", "keep")
	if r.code != 0 || !strings.Contains(r.out, "is a slice of ") || !strings.Contains(r.out, "all entities") {
		t.Fatalf(`%+v; want r.code == 0 && strings.Contains(r.out, "is a slice of ") && strings.Contains(r.out, "all entities")`, r)
	}
	if v := execute(t, "", "", "log", "verify", whole); v.code != 0 || strings.Contains(v.out, "erased") {
		t.Errorf(`%+v; want v.code == 0 && !strings.Contains(v.out, "erased")`, v)
	}
	same(t, data, whole, [][]string{{"story", "orders#1"}, {"story", "--message-id", "poison"}, {"why", "orders/$dlq"}, {"at", "now"}, {"at", "now", "orders", "--messages"},
		{"when", "orders.dead > 1"}, {"audit"}, {"events"}, {"events", "orders", "--where", "type = 'dead'"}})
	if r := execute(t, "", "", "events", "--data", whole); !strings.Contains(r.errOut, "a slice of the namespace ") {
		t.Errorf("it does not say what it is: %q", r.errOut)
	}

	one := filepath.Join(dir, "one")
	if r := execute(t, "", "", "slice", data, "--into", one, "--entity", "orders", "--bodies", "hash", "-o", "json"); r.code != 0 || !strings.Contains(r.out, `"entities":"orders"`) {
		t.Fatalf("%+v; want r.code == 0 && strings.Contains(r.out, `\"entities\":\"orders\"`)", r)
	}
	same(t, data, one, [][]string{{"story", "orders#1"}, {"why", "orders/$dlq"}, {"at", "now", "orders", "--messages"}, {"events", "orders"}})

	for _, bad := range [][]string{{"slice", data, "--into", one}, {"slice", data}, {"slice", data, "--into", filepath.Join(dir, "x"), "--bodies", "some"},
		{"slice", data, "--into", filepath.Join(dir, "x"), "--entity", "@0/8"}, {"slice", data, "--into", filepath.Join(dir, "x"), "--since", "nowhere"}} {
		if r := execute(t, "", "", bad...); r.code != exitUsage {
			t.Errorf("%q: %+v; want r.code == exitUsage", bad, r)
		}
	}
	if r := execute(t, "", "", "slice", data, "--into", filepath.Join(dir, "x"), "--entity", "nobody"); r.code != exitRefused || !strings.Contains(r.errOut, "nobody") {
		t.Errorf(`%+v; want r.code == exitRefused && strings.Contains(r.errOut, "nobody")`, r)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v, %v: something is left of what was refused", list, err)
	}

	broker, stop := startStoppable(t, one)
	defer stop()
	r = execute(t, broker, "", "peek", "orders/$dlq", "--count", "5")
	if r.code != 0 || !strings.Contains(r.out, "sha256:") {
		t.Errorf(`%+v; want r.code == 0 && strings.Contains(r.out, "sha256:")`, r)
	}
	if r := execute(t, broker, "", "send", "orders", "--body", "another"); r.code != 0 {
		t.Errorf("%+v; want r.code == 0", r)
	}
	if r := execute(t, broker, "", "receive", "orders", "--complete"); r.code != 0 || !strings.Contains(r.out, "another") {
		t.Errorf(`%+v; want r.code == 0 && strings.Contains(r.out, "another")`, r)
	}
	if r := execute(t, broker, "", "receive", "orders/$dlq", "--complete"); r.code != 0 || !strings.Contains(r.out, "sha256:") {
		t.Errorf(`%+v; want r.code == 0 && strings.Contains(r.out, "sha256:")`, r)
	}
}

// same compares the answers of two directories, except for notes about the beginning of history.
func same(t *testing.T, a, b string, questions [][]string) {
	t.Helper()
	for _, args := range questions {
		want, got := execute(t, "", "", append(args, "--data", a)...), execute(t, "", "", append(args, "--data", b)...)
		var lines []string
		for line := range strings.Lines(got.out) {
			if !strings.HasPrefix(line, "history of partition ") && (!strings.HasPrefix(line, "at ") || args[1] != "now") {
				lines = append(lines, line)
			}
		}
		var wanted []string
		for line := range strings.Lines(want.out) {
			if !strings.HasPrefix(line, "at ") || args[1] != "now" {
				wanted = append(wanted, line)
			}
		}
		if g, w := strings.Join(lines, ""), strings.Join(wanted, ""); g != w || got.code != want.code || want.code != 0 {
			t.Errorf("%q: %d\n%s%s\nwant %d\n%s%s", args, got.code, g, got.errOut, want.code, w, want.errOut)
		}
	}
}

// A debugger runs the commands of its command line and its standard input, and ends as they say.
func TestDebug(t *testing.T) {
	data := past(t)
	before := execute(t, "", "", "log", "dump", data).out
	r := execute(t, "", "", "debug", data, "-c", "break type = 'dead' AND detail LIKE '%; %'; delete 1; break type = 'dead'; continue; back; p orders#1; continue; reverse")
	for _, want := range []string{"  dead       orders#1  max-delivery", "\n  orders#1: active, 2 failed attempts → active, dead-letter, 2 failed attempts\n  orders: active 1 → 0 · dead 0 → 1 · size ",
		"abandoned  orders#1  2 failed attempts", "history begins here\nbefore the first event\n"} {
		if !strings.Contains(r.out, want) || r.code != 0 {
			t.Errorf("%d %s\nlacks %q", r.code, r.out, want)
		}
	}
	r = execute(t, "", "", "debug", data, "-c", "break when orders/$dlq.messages > 1; continue; print orders/$dlq")
	for _, want := range []string{"  dead       orders#2 ", "\norders/$dlq ", "messages 2 · locked 0 · deferred 0\norders#1 ", "\norders#2 "} {
		if !strings.Contains(r.out, want) || r.code != 0 || strings.Contains(r.out, "main ") {
			t.Errorf("%d %s\nlacks %q, or has messages of the main queue", r.code, r.out, want)
		}
	}
	r = execute(t, "", "n\nbreak when orders.dead > 1\nc\nwhere\nquit\nnonsense\n", "debug", data, "-o", "json")
	if r.code != 0 || strings.Count(r.out, `"Type":"dead"`) != 2 || !strings.Contains(r.out, `"Before":{"Entity":"orders"`) {
		t.Errorf("%+v; want r.code == 0 && strings.Count(r.out, `\"Type\":\"dead\"`) == 2 && strings.Contains(r.out, `\"Before\":{\"Entity\":\"orders\"`)", r)
	}
	if r := execute(t, "", "n\nnonsense\nn\n", "debug", data); r.code != exitUsage || !strings.Contains(r.errOut, "nonsense") {
		t.Errorf(`%+v; want r.code == exitUsage && strings.Contains(r.errOut, "nonsense")`, r)
	}
	if r := execute(t, "", "", "debug", data, "-o", "csv"); r.code != exitUsage {
		t.Errorf("%+v; want r.code == exitUsage", r)
	}
	if after := execute(t, "", "", "log", "dump", data).out; after != before {
		t.Error("the directory has changed")
	}
}

// A slice that is killed while it is made does not exist, at whatever point. A slice that exists is
// complete.
func TestSliceKilled(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := history.Make(t.Context(), data, history.Options{Events: 60_000, Dead: 300, Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for files := 1; files < 24; files += 3 { // it is killed when that many are there
		out := filepath.Join(dir, fmt.Sprint("slice-", files))
		cmd := command(t, "", "slice", data, "--into", out, "--bodies", "keep")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		for dead := false; !dead; {
			select {
			case <-over:
				dead = true
			default:
				if entriesBelow(out+tools.PartialSuffix) >= files {
					_ = cmd.Process.Kill()
					<-over
					dead = true
				}
			}
		}
		if _, err := os.Stat(out); err == nil {
			if r := execute(t, "", "", "log", "verify", out); r.code != 0 {
				t.Errorf("%+v; want r.code == 0", r)
			}
			continue
		}
		killed++
		if r := execute(t, "", "", "slice", data, "--into", out); r.code != exitUsage || !strings.Contains(r.errOut, "remove it") {
			t.Errorf(`%+v; want r.code == exitUsage && strings.Contains(r.errOut, "remove it")`, r)
		}
		if r := execute(t, "", "", "log", "verify", out+tools.PartialSuffix); r.code == 0 {
			t.Errorf("what is half there is verified: %+v", r)
		}
	}
	if killed == 0 {
		t.Error("none was killed")
	}
}

// entriesBelow returns the number of files and directories below a directory.
func entriesBelow(dir string) (n int) {
	_ = filepath.WalkDir(dir, func(_ string, _ os.DirEntry, err error) error {
		if err == nil {
			n++
		}
		return nil
	})
	return n
}

// A directory is sliced and debugged while its broker serves. Both commands see the durable part,
// the directory does not change, and the broker keeps its lease and continues.
func TestSliceAndDebugBesideBroker(t *testing.T) {
	data := t.TempDir()
	broker, stop := startStoppable(t, data)
	defer stop()
	for _, args := range [][]string{{"send", "orders", "--body", "x", "--message-id", "A-1"}, {"send", "orders", "--body", "y", "--message-id", "A-2"}, {"receive", "orders", "--dead-letter"}} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v", args, r)
		}
	}
	// data is read only when it is marked as durable
	for !strings.Contains(execute(t, "", "", "log", "dump", data).out, "MessageDeadLettered") {
		if t.Context().Err() != nil {
			t.Fatal("nothing is marked as durable")
		}
	}
	r := execute(t, "", "", "debug", data, "-c", "break type = 'dead'; continue; print orders")
	if r.code != 0 || !strings.Contains(r.out, "active 2 → 1 · dead 0 → 1 · locked 1 → 0") {
		t.Errorf("%+v", r)
	}
	before := namesIn(t, data)
	into := filepath.Join(t.TempDir(), "incident")
	if r := execute(t, "", "", "slice", data, "--into", into, "--bodies", "keep"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if after := namesIn(t, data); !slices.Equal(before, after) {
		t.Errorf("the directory has\n%q\nand had\n%q", after, before)
	}
	if r := execute(t, broker, "", "send", "orders", "--body", "z"); r.code != 0 {
		t.Errorf("the broker does not go on: %+v", r)
	}
	if r := execute(t, "", "", "serve", "--data", data, "--listen", "127.0.0.1:0"); r.code != exitInUse {
		t.Errorf("another broker could start: %+v", r)
	}
	if r := execute(t, "", "", "log", "verify", into); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if r := execute(t, "", "", "story", "--message-id", "A-1", "--data", into); r.code != 0 || !strings.Contains(r.out, "dead") {
		t.Errorf("%+v", r)
	}
	cut, end := startStoppable(t, into)
	defer end()
	if r := execute(t, cut, "", "receive", "orders", "--complete"); r.code != 0 || !strings.Contains(r.out, "id=A-2") || strings.Contains(r.out, "#3") {
		t.Errorf("%+v", r)
	}
}

// namesIn returns the paths of all files of a directory.
func namesIn(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		list = append(list, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
