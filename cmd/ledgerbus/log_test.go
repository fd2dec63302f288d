package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

func TestLogHelp(t *testing.T) {
	for name, args := range map[string][]string{"log": {"log", "--help"}, "log-dump": {"log", "dump", "--help"}, "log-verify": {"log", "verify", "--help"},
		"log-ls": {"log", "ls", "--help"}, "log-stat": {"log", "stat", "--help"}} {
		r := execute(t, "", "", args...)
		if r.code != 0 || r.errOut != "" {
			t.Errorf("%s: exit code %d, %s", name, r.code, r.errOut)
		}
		file := filepath.Join("testdata", name+".txt")
		if *rewrite {
			if err := os.WriteFile(file, []byte(r.out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), r.out); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// Several damaged places give several lines and exit code 4, as text and as JSON.
func TestVerifyEveryPlace(t *testing.T) {
	data := t.TempDir()
	d := logdir.Open(t, data, log.Options{Partitions: 1, SegmentBytes: 1000})
	_, w := d.Lead(0)
	for i := range event.SequenceNumber(12) {
		d.Append(w, 1000, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: i + 1,
			EnqueuedAt: 1000, Body: event.Blob{Data: make([]byte, 300)}})
	}
	d.Close()
	files, err := filepath.Glob(filepath.Join(data, "partitions", "00", "wal", "*", "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%+v %+v; want len(files) >= 3", files, err)
	}
	for _, name := range files[:3] {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)-200] ^= 1
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := execute(t, "", "", "log", "verify", data)
	if r.code != 4 || r.errOut != "ledgerbus: the log is damaged\n" || strings.Count(r.out, "DAMAGED partition 0 file ") != 3 || strings.Count(r.out, "\n") != 4 {
		t.Errorf(`%+v; want r.code == 4 && r.errOut == "ledgerbus: the log is damaged\n" && strings.Count(r.out, "DAMAGED partition 0 file ") == 3 && strings.Count(r.out, "\n") == 4`, r)
	}
	r = execute(t, "", "", "log", "verify", "-o", "json", data)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != 4 || len(lines) != 4 {
		t.Errorf("%+v; want r.code == 4 && len(lines) == 4", r)
	}
	for i, line := range lines[:3] {
		var v struct{ File string }
		if err := json.Unmarshal([]byte(line), &v); err != nil || filepath.Join(data, v.File) != files[i] {
			t.Errorf("%v, %s, want %s", err, line, files[i])
		}
	}
	if r := execute(t, "", "", "log", "verify", "-o", "xml", data); r.code != 2 {
		t.Errorf("%+v; want r.code == 2", r)
	}
}

// A start and the commands report the same about a directory, including the exit code
// (reliability.md S33).
func TestLogAgreesWithServe(t *testing.T) {
	parent := t.TempDir()
	data := filepath.Join(parent, "data")
	d := logdir.Open(t, data, log.Options{Partitions: 2})
	d.Lead(0)
	d.Close()
	if err := os.Symlink(data, filepath.Join(parent, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"dump", "verify"} {
		if r := execute(t, "", "", "log", c, filepath.Join(parent, "link")); r.code != 0 || r.errOut != "" {
			t.Errorf("log %s of a link to a directory: %+v", c, r)
		}
	}
	for _, n := range []string{"2", "9", "-2"} {
		if r := execute(t, "", "", "log", "dump", "--partition", n, data); r.code != 2 || !strings.Contains(r.errOut, "no such partition: data has 0 to 1, not "+n) {
			t.Errorf(`%+v; want r.code == 2 && strings.Contains(r.errOut, "no such partition: data has 0 to 1, not "+n)`, r)
		}
	}
	// serve last, because it would run for ever
	all := [][]string{{"log", "verify", data}, {"log", "dump", data}, {"serve", "--data", data, "--listen", "127.0.0.1:0"}}
	inside := filepath.Join(data, "partitions")
	if err := errors.Join(os.Rename(inside, filepath.Join(parent, "p")), os.Symlink(filepath.Join(parent, "p"), inside)); err != nil {
		t.Fatal(err)
	}
	for _, args := range all {
		if r := execute(t, "", "", args...); r.code != 5 || !strings.Contains(r.errOut, inside+": is a symbolic link") || strings.Contains(r.out+r.errOut, "amage") {
			t.Fatalf(`%v: %+v; want r.code == 5 && strings.Contains(r.errOut, inside+": is a symbolic link") && !strings.Contains(r.out+r.errOut, "amage")`, args, r)
		}
	}
	if err := errors.Join(os.Remove(inside), os.Rename(filepath.Join(parent, "p"), inside), os.Remove(filepath.Join(data, "namespace.json"))); err != nil {
		t.Fatal(err)
	}
	for _, args := range all {
		r := execute(t, "", "", args...)
		if text := r.out + r.errOut; r.code != 4 || !strings.Contains(text, "partition all") || args[1] != "verify" && strings.Contains(text, "partition 0") {
			t.Fatalf(`%v: %+v; want r.code == 4 && strings.Contains(text, "partition all") && (args[1] == "verify" || !strings.Contains(text, "partition 0"))`, args, r)
		}
	}
}
