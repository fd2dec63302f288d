package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// howFar matches the only difference of an answer from the directory of a running broker: a line on
// stderr for each log with the LSN read up to.
var howFar = regexp.MustCompile(`(?m)^partition \d+: read up to durable LSN \d+; a broker may be using the directory\n`)

// A question has the same answer, in each form, from a running broker, its directory meanwhile, a
// backup of it, and the directory of the stopped broker.
func TestSameAnswerFromEverySource(t *testing.T) {
	data, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	broker, stop := startStoppable(t, data)
	end := sync.OnceFunc(stop)
	defer end()
	causeFailures(t, broker)
	for _, args := range [][]string{{"topic", "create", "weather"}, {"subscription", "create", "weather", "rain", "--rule", "wet", "--sql", "rain > 3"}, {"send", "weather", "--body", "dry", "--message-id", "W-1"},
		{"receive", "orders/$dlq", "--complete"}, {"send", "orders", "--body", "last", "--message-id", "last"}, {"receive", "orders", "--complete"}} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v", args, r)
		}
	}
	place := func(where string) string {
		r := execute(t, broker, "", "events", "--where", where)
		found := regexp.MustCompile(`@\d+/\d+\n`).FindAllString(r.out, -1)
		if r.code != 0 || found == nil {
			t.Fatalf("%s: %+v", where, r)
		}
		return strings.TrimSpace(found[len(found)-1])
	}
	first, last := place("type = 'sent' AND number = 1"), place("type = 'completed'")
	// data is read only when it is marked as durable
	for !strings.Contains(execute(t, "", "", "events", "orders", "--type", "completed", "--data", data).out, last+"\n") {
		if t.Context().Err() != nil {
			t.Fatal("nothing is marked as durable")
		}
	}
	if r := execute(t, broker, "", "backup", "--into", copied); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	message := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(message, []byte(`{"properties": {"rain": 2}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	questions := questionsAbout(first, last, message)
	forms := []string{"text", "json", "csv"}
	ask := func(connection string, source ...string) (all []result) {
		for _, q := range questions {
			for _, form := range forms {
				all = append(all, execute(t, connection, "", slices.Concat(q, source, []string{"-o", form})...))
			}
		}
		return all
	}
	door := ask(broker)
	beside := ask("", "--data", data)
	backup := ask("", "--data", copied)
	end()
	stopped := ask("", "--data", data)
	for i, want := range door {
		q := append(slices.Clone(questions[i/len(forms)]), forms[i%len(forms)])
		for source, got := range map[string]result{"its directory": beside[i], "its backup": backup[i], "its directory when it was stopped": stopped[i]} {
			// a broker's refusal contains a status and the command
			if got.errOut = howFar.ReplaceAllString(got.errOut, ""); want.code != 0 {
				got.errOut = want.errOut
			}
			if got != want {
				t.Errorf("%q: the broker says\n%+v\n%s\n%+v", q, want, source, got)
			}
		}
		if n := len(howFar.FindAllString(beside[i].errOut, -1)); want.code == 0 && n == 0 {
			t.Errorf("%q: nothing says how far the directory of the running broker was read: %q", q, beside[i].errOut)
		}
		if want.code == 0 && want.out+want.errOut == "" {
			t.Errorf("%q is not answered", q)
		}
	}
}

// questionsAbout returns questions whose answers do not change while a broker continues: they end
// at a place, or are about settled messages.
func questionsAbout(first, last, message string) [][]string {
	return [][]string{
		{"story", "orders#1"}, {"story", "--message-id", "poison"}, {"story", "--message-id", "W-1"}, {"why", "orders/$dlq"}, {"why", "orders#2"},
		{"at", first}, {"at", last}, {"at", last, "orders", "--messages"}, {"at", last, "orders/$dlq"}, {"at", last, "orders/$dlq", "--messages"},
		{"diff", first, last}, {"diff", first, last, "orders"}, {"diff", first, last, "--messages"}, {"diff", first, last, "orders/$dlq"},
		{"when", "orders.dead > 1"}, {"when", "orders.dead > 1 AND orders.active > 77"}, {"when", "orders.active > 1", "--since", first},
		{"audit", "--until", last}, {"audit", "orders", "--until", last}, {"audit", "orders/$dlq", "--until", last}, {"audit", "--where", "reason = 'INC-4711'", "--until", last},
		{"events", "--until", last}, {"events", "orders/$dlq", "--until", last}, {"events", "orders", "--since", first, "--until", last, "--where", "type IN ('dead', 'completed', 'abandoned')"},
		{"trace", "weather", "--message", message}, {"story", "orders#77"}, {"at", "1970-01-02", "orders"}, {"diff", last, first}, {"events", "--type", "nonsense"},
	}
}
