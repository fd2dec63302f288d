package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
)

// spread returns the stopped directory of a broker with messages in several partitions, and the id
// of a message in each of them.
func spread(t *testing.T) (data string, ids map[int]string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	queues := []string{"a", "b", "c", "d", "e", "f"}
	s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {data}, "listen": {"127.0.0.1:0"}, "queue": queues}})
	if err != nil {
		t.Fatal(err)
	}
	broker, stop := startWith(t, s)
	for _, q := range queues {
		if r := execute(t, broker, "", "send", q, "--body", "x", "--message-id", "of-"+q); r.code != 0 {
			t.Fatalf("%+v; want r.code == 0", r)
		}
	}
	stop()
	ids = make(map[int]string)
	for _, q := range queues {
		var partition int
		line := types(t, data, "events", q, "--type", "sent")
		if _, err := fmt.Sscanf(line[strings.LastIndex(line, "@")+1:], "%d/", &partition); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		ids[partition] = "of-" + q
	}
	return data, ids
}

// A missing or unreadable partition is never treated as an empty one: a command that continues
// without it ends with exit code 4.
func TestMissingPartition(t *testing.T) {
	data, ids := spread(t)
	gone, there := 0, 0
	for p := range ids {
		if p != 0 && gone == 0 {
			gone = p
		} else {
			there = p
		}
	}
	if gone == 0 || len(ids) < 2 {
		t.Fatalf("messages are in the partitions %v; want one besides partition 0 and another one", ids)
	}
	queue := strings.TrimPrefix(ids[gone], "of-")
	lost, known, p := ids[gone], ids[there], fmt.Sprint(gone)
	place := filepath.Join(data, "partitions", fmt.Sprintf("%02d", gone))
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	note := "partition " + p + " cannot be read and is missing from this answer: "
	for _, c := range []struct {
		args []string
		code int
		text string // is printed
	}{
		{[]string{"log", "dump", data}, 4, "MessageEnqueued"},
		{[]string{"log", "dump", data, "--type", "sent"}, 4, "MessageEnqueued"},
		{[]string{"log", "dump", data, "--type", "sent", "--partition", p}, 4, "is missing"},
		{[]string{"log", "dump", data, "--type", "run", "--partition", "0"}, 0, "RunStarted"},
		{[]string{"log", "dump", data, "--entity", queue}, 4, "EntityCreated"},
		{[]string{"log", "dump", data, "--message-id", known}, 4, known},
		{[]string{"log", "dump", data, "--message-id", lost}, 4, "is missing"},
		{[]string{"log", "verify", data}, 4, "DAMAGED partition " + p},
		{[]string{"log", "ls", data}, 4, "is missing"},
		{[]string{"log", "stat", data}, 4, "is missing"},
		{[]string{"log", "mirror", data, "--once", "--into", filepath.Join(t.TempDir(), "mirror")}, 4, "is missing"},
		{[]string{"slice", data, "--into", filepath.Join(t.TempDir(), "slice")}, 4, "is missing"},
		{[]string{"slice", data, "--into", filepath.Join(t.TempDir(), "slice"), "--entity", queue}, 4, "is missing"},
		{[]string{"debug", data, "-c", "end"}, 4, "is missing"},
		{[]string{"doctor", "--data", data}, 1, "damaged places"},
		{[]string{"events", "--data", data}, 4, note},
		{[]string{"events", "--data", data, "-o", "json"}, 4, `{"Part":"note","Text":"` + note},
		{[]string{"events", "--data", data, "-o", "csv"}, 4, note},
		{[]string{"events", "--data", data, "--type", "dead"}, 4, note},
		{[]string{"events", "--data", data, "--message-id", lost}, 4, "is missing"},
		{[]string{"events", "--data", data, queue}, 4, "is missing"},
		{[]string{"audit", "--data", data}, 4, note},
		{[]string{"story", "--data", data, "--message-id", known}, 4, note},
		{[]string{"story", "--data", data, "--message-id", lost}, 4, note},
		{[]string{"story", "--data", data, queue + "#1"}, 4, "is missing"},
		{[]string{"at", "--data", data, "now"}, 4, "is missing"},
		{[]string{"at", "--data", data, "now", queue}, 4, "is missing"},
		{[]string{"diff", "--data", data, "2026-01-01", "now"}, 4, "is missing"},
		{[]string{"when", "--data", data, queue + ".active > 0"}, 4, "is missing"},
		{[]string{"why", "--data", data, queue + "/$dlq"}, 4, "is missing"},
	} {
		r := execute(t, "", "", c.args...)
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.text) || strings.Contains(r.out+r.errOut, "no matching events") || strings.Contains(r.out+r.errOut, "nothing is known") {
			t.Errorf("%q: %+v; want exit code %d and %q, and nothing called unknown", c.args, r, c.code, c.text)
		}
	}
}

func TestExportOfAPartOfTheDirectory(t *testing.T) {
	whole, ids := spread(t)
	gone := 1
	for ids[gone] == "" {
		gone++
	}
	wal := filepath.Join("partitions", fmt.Sprintf("%02d", gone), "wal")
	for name, spoil := range map[string]func(data string){
		"the partition is missing": func(data string) {
			if err := os.RemoveAll(filepath.Dir(filepath.Join(data, wal))); err != nil {
				t.Fatal(err)
			}
		},
		"its log is missing": func(data string) {
			if err := os.RemoveAll(filepath.Join(data, wal)); err != nil {
				t.Fatal(err)
			}
		},
		"its log is damaged": func(data string) { damage(t, filepath.Join(data, wal)) },
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(data, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			spoil(data)
			out := filepath.Join(t.TempDir(), "out")
			r := execute(t, "", "", "log", "export", data, "--into", out)
			if _, err := os.Stat(out); r.code != 4 || r.out != "" || err == nil || !strings.Contains(r.errOut, "--partial") {
				t.Fatalf("%+v, %v; want exit code 4 that names --partial, and no directory", r, err)
			}
			r = execute(t, "", "", "log", "export", data, "--into", out, "--partial")
			text, err := os.ReadFile(filepath.Join(out, "export.json"))
			if err != nil || r.code != 0 || !strings.HasSuffix(r.out, fmt.Sprintf(", incomplete for partition %d\n", gone)) {
				t.Fatalf("%+v, %v; want exit code 0, and what is missing", r, err)
			}
			var says struct {
				Partitions []struct{ Partition int }
				Missing    []struct {
					Partition int
					From      uint64
					Error     string
				}
			}
			if err := json.Unmarshal(text, &says); err != nil {
				t.Fatal(err)
			}
			if len(says.Missing) != 1 || says.Missing[0].Partition != gone || says.Missing[0].From != 0 || says.Missing[0].Error == "" || len(says.Partitions) != 3 {
				t.Errorf("%s; want partition %d missing, and three others", text, gone)
			}
		})
	}
	out := filepath.Join(t.TempDir(), "out")
	r := execute(t, "", "", "log", "export", whole, "--into", out, "--partial")
	if text, err := os.ReadFile(filepath.Join(out, "export.json")); err != nil || r.code != 0 || !strings.Contains(string(text), `"missing": []`) {
		t.Errorf("%+v, %v: %s; want nothing missing of a whole directory", r, err, text)
	}
}
