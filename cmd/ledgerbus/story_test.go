package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// types runs a command on a data directory and returns its output.
func types(t *testing.T, data string, args ...string) string {
	t.Helper()
	r := execute(t, "", "", append(args, "--data", data)...)
	if r.code != 0 {
		t.Fatalf("%q: %+v; want r.code == 0", args, r)
	}
	return r.out
}

// checkOutput checks that the output matches the expressions in order.
func checkOutput(t *testing.T, got string, lines ...string) {
	t.Helper()
	rest := got
	for _, line := range lines {
		at := regexp.MustCompile(line).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("there is no %q in\n%s\nof\n%s", line, rest, got)
		}
		rest = rest[at[1]:]
	}
}

// The story of a message is available while its broker runs: who sent it, who tried to receive it,
// and its outcome.
func TestStory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	broker := startBroker(t, "data", data)
	for _, args := range [][]string{
		{"send", "orders", "--body", "x", "--message-id", "A-4711\x1b[2J"},
		{"receive", "orders", "--abandon"},
		{"receive", "orders", "--dead-letter", "--reason", "BadCurrency", "--description", "EURO is no \x07currency"},
		{"receive", "orders/$dlq", "--complete"},
	} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v; want r.code == 0", args, r)
		}
	}
	waitForAnswer(t, data, "COMPLETED", "story", "orders#1")
	got := types(t, data, "story", "orders#1")
	checkOutput(t, got, `^orders#1 · id "A-4711\\x1b\[2J", \d+ bytes · COMPLETED, 3 attempts\n`, `Z  sent `, `Z  locked +attempt 1, for 60\.0 s`, `Z  abandoned +1 failed attempt`, `Z  locked +attempt 2`,
		`Z  dead +application: BadCurrency: "EURO is no \\acurrency"  .*127\.0\.0\.1.*  @\d/\d+\n`, `Z  completed `, `in a sentence: it was completed .* with 3 attempts`, `next: ledgerbus at @\d/\d+ 'orders'`)
	if strings.ContainsAny(got, "\x1b\x07") {
		t.Errorf("steers: %q", got)
	}
	if again := types(t, data, "story", "--message-id", "A-4711\x1b[2J"); again != got {
		t.Errorf("by id:\n%s", again)
	}
	checkOutput(t, types(t, data, "story", "orders#1", "-o", "json"), `^\{"Part":"answer","Message":"orders#1","State":"completed","Attempts":3,`, `"Type":"dead"`, `\{"Part":"next"`)
	checkOutput(t, types(t, data, "story", "orders#1", "-o", "csv"), `^Time,Type,Message,Detail,By,Place,Event\n`, `,dead,orders#1,`)
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"story"}, 2, "name one message"},
		{[]string{"story", "orders"}, 2, "orders is not a message"},
		{[]string{"story", "orders#2"}, 1, "nothing is known of orders#2"},
		{[]string{"story", "nosuch#2"}, 1, "nothing is known of an entity nosuch; known entities: orders"},
		{[]string{"story", "--message-id", "x"}, 1, "nothing is known of a message with the id \"x\""},
		{[]string{"story", "orders#1", "-o", "xml"}, 2, "not one of text, json, csv"},
	} {
		if r := execute(t, "", "", append(c.args, "--data", data)...); r.code != c.code || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%q: %+v; want r.code == c.code && strings.Contains(r.errOut, c.text)", c.args, r)
		}
	}
}

// waitForAnswer repeats a question until the running broker's last writes can be read from its
// directory, which takes a second.
func waitForAnswer(t *testing.T, data, has string, args ...string) {
	t.Helper()
	for t.Context().Err() == nil {
		if r := execute(t, "", "", append(args, "--data", data)...); strings.Contains(r.out, has) {
			return
		}
	}
	t.Fatal("never", has)
}
