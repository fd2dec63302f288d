package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// sealedDirectory returns a log of two chapters, the first of them sealed. A queue gets four
// messages, two of which are received and deleted. Each chapter contains one of the remaining two.
func sealedDirectory(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	envelope := event.Envelope{Slice: event.Slice{Entity: 1}}
	write := func(events ...[]event.Event) {
		d := logdir.Open(t, data, log.Options{Partitions: 1, SealAfter: -1, Manual: true})
		p, w := d.Lead(0)
		for _, list := range events {
			w.Batch().AppendRecord(1_900_000_000_000, list, log.Durable)
			w.Append(w.Batch())
			for w.(log.ManualWriter).Work() {
			}
		}
		for more := true; more; {
			var err error
			if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		d.Close()
	}
	message := func(n event.SequenceNumber, size int) []event.Event {
		return []event.Event{&event.MessageEnqueued{Envelope: envelope, Sequence: n, EnqueuedAt: 1_900_000_000_000, MessageID: []byte("m"), Body: event.Blob{Data: make([]byte, size)}}}
	}
	taken := func(n event.SequenceNumber) []event.Event {
		return []event.Event{&event.MessageReceivedAndDeleted{Envelope: envelope, Sequence: n}}
	}
	write([]event.Event{&event.EntityCreated{Envelope: envelope, EntityKind: event.Queue, Path: "orders"}}, message(1, 100), message(2, 1000), taken(1))
	write(message(3, 10), message(4, 20), taken(4))
	return data
}

// Tests the output of log ls and log stat for a sealed file and an unsealed one, as text, JSON and
// CSV.
func TestLogCensus(t *testing.T) {
	data := sealedDirectory(t)
	r := execute(t, "", "", "log", "ls", "-o", "json", data)
	if r.code != 0 || r.errOut != "" {
		t.Fatalf(`%+v; want r.code == 0 && r.errOut == ""`, r)
	}
	type file struct {
		File, Kind                                                                       string
		First, End, Stored, Raw, Events, Live, LiveBytes, BodyBytes, ErasedBytes, Frames int64
	}
	var files []file
	for line := range strings.Lines(r.out) {
		var f file
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(data, f.File)); err != nil || f.Kind == "sealed" && info.Size() != f.Stored {
			t.Errorf("%+v: the file has %v, %v", f, info, err)
		}
		f.File, f.First, f.End, f.Stored, f.Raw, f.Frames = "", f.First/1e6, 0, 0, 0, 0
		files = append(files, f)
	}
	want := []file{
		{Kind: "sealed", Events: 4, Live: 1, LiveBytes: 1000, BodyBytes: 1100},
		{Kind: "hot", Events: 3, Live: 1, LiveBytes: 10, BodyBytes: 30},
	}
	if !slices.Equal(files, want) {
		t.Errorf("files are\n%+v\nwant\n%+v", files, want)
	}
	r = execute(t, "", "", "log", "ls", data)
	if lines := strings.Split(r.out, "\n"); r.code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[0], "FILE ") || !strings.HasPrefix(lines[1], "partitions/00/sealed/0000000001-0001.lbs") {
		t.Errorf(`%+v; want r.code == 0 && len(lines) == 4 && strings.HasPrefix(lines[0], "FILE ") && strings.HasPrefix(lines[1], "partitions/00/sealed/0000000001-0001.lbs")`, r)
	}
	spaces := regexp.MustCompile(" +")
	for output, lines := range map[string][]string{
		"text": {"PARTITION FILES SEALED", "\n0 2 1 ", "\norders 7 ", " 4 1130 2 1010\n", "\nMessageEnqueued 4 "},
		"json": {`{"of":"entity","name":"orders","events":7,`, `"bodies":4,"bodyBytes":1130,"live":2,"liveBytes":1010}`, `{"of":"event","name":"EntityCreated","events":1,`, `{"of":"partition","name":"0","files":2,"sealed":1,`},
		"csv":  {"of,name,files,sealed,stored,raw,events,bytes,bodies,bodyBytes,erasedBytes,live,liveBytes,from,to\npartition,0,2,1,", "\nentity,orders,,,,,7,", "\nevent,MessageReceivedAndDeleted,,,,,2,"},
	} {
		r := execute(t, "", "", "log", "stat", "-o", output, data)
		for _, line := range lines {
			if !strings.Contains(spaces.ReplaceAllString(r.out, " "), line) || r.code != 0 {
				t.Errorf("%s: %q is not in %+v", output, line, r)
			}
		}
	}
	for _, command := range []string{"ls", "stat"} {
		if r := execute(t, "", "", "log", command, "-o", "xml", data); r.code != 2 {
			t.Errorf("%+v; want r.code == 2", r)
		}
		if r := execute(t, "", "", "log", command); r.code != 2 {
			t.Errorf("%+v; want r.code == 2", r)
		}
	}
	name := filepath.Join(data, "partitions/00/sealed/0000000001-0001.lbs")
	p, err := os.ReadFile(name)
	if err == nil {
		p[len(p)-1] ^= 1
		err = os.WriteFile(name, p, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "", "", "log", "stat", data); r.code != 4 {
		t.Errorf("damaged: %+v", r)
	}
}
