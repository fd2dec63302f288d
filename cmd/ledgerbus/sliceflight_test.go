package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/archive"
)

// counts are the message counts of an entity, with the names in `at`.
type counts struct{ Active, DeadLetter, Scheduled, Transfer, TransferDeadLetter int }

// countsAt returns the counts of all entities of a directory at an instant, by path.
func countsAt(t *testing.T, dir, at string) map[string]counts {
	t.Helper()
	r := execute(t, "", "", "at", at, "--data", dir, "-o", "json")
	all := map[string]counts{}
	for line := range strings.Lines(r.out) {
		var row struct {
			Part   string
			Entity string
			counts
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if row.Part == "row" {
			all[row.Entity] = row.counts
		}
	}
	if r.code != 0 || len(all) == 0 {
		t.Fatalf("at %s: %+v", at, r)
	}
	return all
}

// countsOf returns a broker's counts of its queues, and of the subscription through which messages
// move.
func countsOf(t *testing.T, broker string) map[string]counts {
	t.Helper()
	all := map[string]counts{}
	for _, args := range [][]string{{"queue", "list"}, {"subscription", "list", "hub"}} {
		r := execute(t, broker, "", append(args, "-o", "json")...)
		d := json.NewDecoder(strings.NewReader(r.out))
		for d.More() {
			var e struct {
				Topic, Name string
				counts
			}
			if err := d.Decode(&e); err != nil || r.code != 0 {
				t.Fatalf("%q: %+v, %v", args, r, err)
			}
			if e.Topic != "" {
				e.Name = e.Topic + "/Subscriptions/" + e.Name
			}
			all[e.Name] = e.counts
		}
	}
	return all
}

// A slice may begin and end between any two steps of a move or a transaction. It is sound, gives
// the same answers as the whole directory, and a broker that opens it has the state of its end. The
// broker moves none of its messages, accepts new ones, and leaves it sound.
func TestSliceWithMovesUnderWay(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for name, content := range archive.Files(t, filepath.Join("..", "..", "test", "compatible", "testdata", "moves.tar.gz")) {
		file := filepath.Join(data, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var steps []string    // times of steps of moves, and of transactions
	var behind [][]string // times of others between a step and the next one
	r := execute(t, "", "", "events", "--data", data, "--where", "type IN ('moving', 'arrived', 'moved', 'handed-over', 'committed', 'aborted', 'move-failed', 'source-forgotten')")
	for i, m := range regexp.MustCompile(`(?m)^(\S+)  (\S+) `).FindAllStringSubmatch(r.out, -1) {
		seldom := m[2] != "moving" && m[2] != "arrived" && m[2] != "moved"
		last := len(steps) - 1
		switch {
		case last >= 0 && m[1] == steps[last]:
		case seldom || i%6 == 0:
			steps, behind = append(steps, m[1]), append(behind, nil)
		case last >= 0:
			behind[last] = append(behind[last], m[1])
		}
	}
	if r.code != 0 || len(steps) < 12 {
		t.Fatalf("%q of %+v", steps, r)
	}
	began, ended := 0, 0
	for i := range len(steps) - 1 {
		since, until := steps[i], steps[i+1]
		begin, end := countsAt(t, data, since), countsAt(t, data, until)
		began, ended = began+min(1, underWay(begin)), ended+min(1, underWay(end))
		cutBetween(t, data, since, until, behind[i], end)
	}
	if began < 4 || ended < 4 {
		t.Errorf("of %d slices %d begin and %d end while something moves", len(steps)-1, began, ended)
	}
}

// underWay returns the number of messages in transfer.
func underWay(all map[string]counts) (n int) {
	for _, c := range all {
		n += c.Transfer
	}
	return n
}

// cutBetween makes a slice, compares it with the directory at its beginning, at a time inside it
// and at its end, and starts a broker on it.
func cutBetween(t *testing.T, data, since, until string, inside []string, end map[string]counts) {
	t.Helper()
	into := filepath.Join(t.TempDir(), "incident")
	verified := func(when string) {
		t.Helper()
		if r := execute(t, "", "", "log", "verify", into); r.code != 0 {
			t.Errorf("%s to %s, %s: %+v", since, until, when, r)
		}
	}
	if r := execute(t, "", "", "slice", data, "--since", since, "--until", until, "--bodies", "keep", "--into", into); r.code != 0 {
		t.Fatalf("%s to %s: %+v", since, until, r)
	}
	verified("as it was cut")
	questions := [][]string{{"at", since}, {"at", since, "--messages"}, {"at", until}, {"at", until, "--messages"}, {"diff", since, until}}
	for _, at := range inside[:min(1, len(inside))] {
		questions = append(questions, []string{"at", at, "--messages"})
	}
	same(t, data, into, questions)
	broker, stop := startStoppable(t, into)
	has := countsOf(t, broker)
	body := fmt.Sprintf("new behind %s", until)
	if r := execute(t, broker, "", "send", "grouped", "--session-id", "s", "--body", body); r.code != 0 {
		t.Errorf("%s to %s: %+v", since, until, r)
	}
	if r := execute(t, broker, "", "receive", "grouped", "--session", "s", "--complete"); r.code != 0 || !strings.Contains(r.out, body) {
		t.Errorf("%s to %s: %+v", since, until, r)
	}
	stop()
	verified("behind its broker")
	for name, want := range end {
		// Nothing expires in the directory. What was locked in it has expired by now, which the
		// broker says when the lock ends, at its start.
		expired := execute(t, "", "", "events", name, "--type", "expired", "--data", into, "-o", "csv").out
		want.Active -= strings.Count(expired, ",expired,")
		if got, is := has[name]; is && got != want || !is && name != "hub" {
			t.Errorf("%s to %s: a broker says of %s %v, want %v", since, until, name, got, want)
		}
	}
	if after := countsAt(t, into, "now"); underWay(after) != underWay(end) {
		t.Errorf("%s to %s: %d messages are under way after a broker was there, want %d", since, until, underWay(after), underWay(end))
	}
}

// The time before history begins is not guessed: a question about it is refused, with the beginning
// of history. An answer that spans it contains a note.
func TestBeforeTheHorizon(t *testing.T) {
	data, late := past(t), filepath.Join(t.TempDir(), "late")
	timeOf := func(where string) string {
		r := execute(t, "", "", "events", "orders", "--where", where, "--data", data, "-o", "csv")
		lines := strings.Split(r.out, "\n")
		if r.code != 0 || len(lines) < 3 {
			t.Fatalf("%s: %+v", where, r)
		}
		at, _, _ := strings.Cut(lines[1], ",")
		return at
	}
	sent, dead := timeOf("type = 'sent' AND number = 1"), timeOf("type = 'dead' AND number = 2")
	if r := execute(t, "", "", "slice", data, "--since", dead, "--into", late); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	begins := regexp.MustCompile(`nothing is known of partition \d at \S+: its history begins at \d{4}\S+Z, @\d/\d+\n`)
	for _, args := range [][]string{{"at", sent, "orders"}, {"at", sent}, {"at", sent, "orders/$dlq"}, {"diff", sent, "now", "orders"}, {"when", "orders.dead > 1", "--since", sent}} {
		if r := execute(t, "", "", append(args, "--data", late)...); r.code != exitRefused || r.out != "" || !begins.MatchString(r.errOut) {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"events", "orders"}, {"events", "orders/$dlq"}, {"at", "now", "orders"}} {
		if r := execute(t, "", "", append(args, "--data", late)...); r.code != 0 || !strings.Contains(r.out, "begins at ") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
