package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tests the selection of a part of the log by entity, message, id, type, time and condition, in a
// dump, in an export and among events.
func TestPartOfTheLog(t *testing.T) {
	data := past(t)
	dump := func(args ...string) []string {
		t.Helper()
		r := execute(t, "", "", append(append([]string{"log", "dump"}, args...), data)...)
		if r.code != 0 {
			t.Fatalf("%q: %+v; want r.code == 0", args, r)
		}
		return strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	}
	count := func(lines []string, text string) (n int) {
		for _, l := range lines {
			if strings.Contains(l, text) {
				n++
			}
		}
		return n
	}
	all := dump()
	if dead := dump("--type", "dead"); len(dead) != 3 || count(dead, " MessageDeadLettered ") != 3 || count(dead, `By="origin `) < 2 {
		t.Errorf("--type dead:\n%s", strings.Join(dead, "\n"))
	}
	if got := dump("--type", "MessageDeadLettered", "--type", "completed"); len(got) != 4 {
		t.Errorf("two types:\n%s", strings.Join(got, "\n"))
	}
	if got := dump("--message-id", "poison"); len(got) != count(all, "Sequence=1 ") || count(got, "Sequence=1 ") != len(got) {
		t.Errorf("--message-id:\n%s", strings.Join(got, "\n"))
	}
	if got := dump("--entity", "orders#1"); len(got) != len(dump("--message-id", "poison")) {
		t.Errorf("--entity orders#1:\n%s", strings.Join(got, "\n"))
	}
	if got := dump("--entity", "orders", "--where", "reason = 'INC-4711'"); len(got) != 1 || count(got, "EntityUpdated") != 1 {
		t.Errorf("--where:\n%s", strings.Join(got, "\n"))
	}
	if got := dump("--until", "1970-01-02"); len(got) != 1 || got[0] != "" {
		t.Errorf("--until:\n%s", strings.Join(got, "\n"))
	}
	if got := dump("--since", "1970-01-02"); len(got) != len(all) {
		t.Errorf("--since: %d of %d", len(got), len(all))
	}
	checkOutput(t, types(t, data, "events", "--message-id", "poison", "--type", "dead", "-o", "csv"), `^Time,.*\n.*,dead,orders,1,.*\n$`)
	out := filepath.Join(t.TempDir(), "out")
	r := execute(t, "", "", "log", "export", data, "--into", out, "--format", "csv", "--entity", "orders", "--type", "dead")
	if p, err := os.ReadFile(filepath.Join(out, "events.csv")); r.code != 0 || r.out != "3 events, 0 messages, 0 locks, 0 sessions and 2 origins in "+out+"\n" && !strings.HasPrefix(r.out, "3 events, ") || err != nil || strings.Count(string(p), "\n") != 4 {
		t.Errorf("export: %+v\n%s, %v", r, p, err)
	}
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"log", "export", data, "--into", out}, 2, "is not empty"},
		{[]string{"log", "export", data}, 2, "missing --into"},
		{[]string{"log", "export", data, "--into", out, "--format", "xml"}, 2, "not one of jsonl, csv, parquet"},
		{[]string{"log", "dump", data, "--type", "eaten"}, 2, `unknown type "eaten"`},
		{[]string{"log", "dump", data, "--entity", "@0/8"}, 2, "is a place in a log"},
		{[]string{"log", "dump", data, "--message-id", "x"}, 1, "nothing is known of a message with the id"},
		{[]string{"log", "dump", data, "--where", "type IN"}, 2, "--where"},
		{[]string{"log", "dump", data, "--where", "[lock token] IS NULL"}, 2, `unknown column "lock token"`},
		{[]string{"log", "export", data, "--into", filepath.Join(t.TempDir(), "not"), "--where", "property('tpye') = 'dead'"}, 2, "unknown column tpye"},
		{[]string{"debug", data, "-c", "break tpye = 'dead'; continue"}, 2, "break: unknown column tpye; the columns are time, type,"},
		{[]string{"debug", data, "-c", "break when orders.colour > 1"}, 2, `unknown count "colour"`},
	} {
		if r := execute(t, "", "", c.args...); r.code != c.code || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%q: %+v; want r.code == c.code && strings.Contains(r.errOut, c.text)", c.args, r)
		}
	}
}
