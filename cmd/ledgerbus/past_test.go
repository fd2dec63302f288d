package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// past returns the stopped directory of a broker on which some operations failed.
func past(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	causeFailures(t, broker)
	stop()
	return data
}

// causeFailures causes failures on a broker.
func causeFailures(t *testing.T, broker string) {
	t.Helper()
	for _, args := range [][]string{
		{"queue", "update", "orders", "--max-delivery-count", "2", "--reason", "INC-4711"},
		{"send", "orders", "--body", "x", "--message-id", "poison"},
		{"receive", "orders", "--abandon"},
		{"receive", "orders", "--abandon"},
		{"send", "orders", "--body", "y", "--count", "3"},
		{"receive", "orders", "--dead-letter", "--reason", "BadCurrency", "--description", "order 17 is in EURO"},
		{"receive", "orders", "--dead-letter", "--reason", "BadCurrency", "--description", "order 4 is in EURO"},
		{"receive", "orders", "--complete"},
	} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v; want r.code == 0", args, r)
		}
	}
}

// A broker gives the same answers as its directory, in each form, and refuses the same questions
// with the same code.
func TestPastOfBroker(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	causeFailures(t, broker)
	type asked struct {
		args []string
		r    result
	}
	var all []asked
	for _, args := range [][]string{
		{"story", "orders#1"}, {"story", "--message-id", "poison"}, {"why", "orders/$dlq"}, {"why", "orders#2"}, {"when", "orders.dead > 1"}, {"audit", "orders"},
		{"events", "orders", "--where", "type IN ('dead', 'completed', 'sent')"},
		{"story", "orders#77"}, {"why", "bills"}, {"when", "orders.colour > 1"}, {"events", "--where", "type IN"}, {"audit", "--where", "tpye = 'dead'"},
	} {
		for _, form := range []string{"text", "json", "csv"} {
			args := append(slices.Clone(args), "-o", form)
			all = append(all, asked{args, execute(t, broker, "", args...)})
		}
	}
	for _, line := range strings.Split(execute(t, broker, "", "events", "orders", "--where", "type IN ('dead', 'sent')", "-o", "csv").out, "\n") {
		for field := range strings.SplitSeq(line, ",") {
			if strings.HasPrefix(field, "@") {
				for _, args := range [][]string{{"at", field}, {"at", field, "orders", "--messages"}, {"diff", field, field, "orders"}} {
					all = append(all, asked{args, execute(t, broker, "", args...)})
				}
			}
		}
	}
	if r := execute(t, broker, "", "at", "now", "--live"); r.code != 2 || !strings.Contains(r.errOut, "--live") {
		t.Errorf(`%+v; want r.code == 2 && strings.Contains(r.errOut, "--live")`, r)
	}
	if r := execute(t, "", "", "at", "now", "--data", data, "-c", broker); r.code != 2 || !strings.Contains(r.errOut, "--data and --connection-string cannot be used together") {
		t.Errorf(`%+v; want r.code == 2 && strings.Contains(r.errOut, "--data and --connection-string cannot be used together")`, r)
	}
	stop()
	if len(all) < 40 {
		t.Errorf("%d answers", len(all))
	}
	for _, a := range all {
		want := execute(t, "", "", append(a.args, "--data", data)...)
		if a.r.out != want.out || a.r.code != want.code || want.code == 0 && a.r.errOut != want.errOut {
			t.Errorf("%q: the broker says\n%+v\nthe directory\n%+v", a.args, a.r, want)
		}
	}
}

func TestWhy(t *testing.T) {
	data := past(t)
	checkOutput(t, types(t, data, "why", "orders/$dlq"), `^orders/\$dlq: 3 dead letters since \d{4}-.*Z, 2 causes\n`,
		`#1 2  application: BadCurrency: "order # is in EURO"  .* by .*127\.0\.0\.1.*  such as orders#2\n`,
		`#2 1  max-delivery.*  returned 2 times  by .*  such as orders#1\n`,
		`shortly before: \S+Z RootManageSharedAccessKey .* changed orders: MaxDeliveryCount 10 → 2  @0/\d+\n`,
		`next: ledgerbus story 'orders#2'`, `next: ledgerbus at `, `next: ledgerbus audit`)
	checkOutput(t, types(t, data, "why", "orders#1"), `^orders#1 · id poison, \d+ bytes · DEAD-LETTERED, 2 attempts\n`, `in a sentence: 2 attempts failed: 2 returned, 0 with a lost lock\n`, `next: ledgerbus why 'orders/\$dlq'`)
	checkOutput(t, types(t, data, "why", "orders/$dlq", "-o", "csv"), `^Group,Messages,`, `\n1,2,application,BadCurrency,`)
	checkOutput(t, types(t, data, "why", "orders/$transfer/$dlq"), `no dead letters`)
}

func TestAt(t *testing.T) {
	data := past(t)
	checkOutput(t, types(t, data, "at", "now"), `^at .*Z: 1 entity with 3 messages\n`, `orders +active 0 · dead 3 · scheduled 0`)
	place := placeOf(t, data, "received twice", "number = 1 AND type = 'dead'")
	checkOutput(t, types(t, data, "at", place, "orders"), `1 message\n`, `orders +active 0 · dead 1 `, `next: ledgerbus at .* 'orders' --messages`)
	sent := placeOf(t, data, "sent", "number = 1 AND type = 'sent'")
	checkOutput(t, types(t, data, "at", sent, "orders", "--messages"), `orders#1 +active +main  since .*Z  0 failed attempts, \d+ bytes`)
	checkOutput(t, types(t, data, "at", sent, "orders", "--messages", "-o", "json"), `"Message":"orders#1","SequenceNumber":1,"State":"active"`)
	checkOutput(t, types(t, data, "diff", sent, "now", "orders"), `^from `, `orders: messages 1 → 3 · active 1 → 0 · dead 0 → 3`, `orders between: 3 arrived · 1 completed · 3 dead-lettered`)
	checkOutput(t, types(t, data, "diff", sent, "now", "--messages"), `orders#1 +changed +main active, 0 failed attempts → dead-letter active, 2 failed attempts`, `orders#2 +arrived `)
	checkOutput(t, types(t, data, "at", "now", "orders/$dlq"), `1 entity with 3 messages\n`, `orders/\$dlq +messages 3 · locked 0 · deferred 0\n`, `next: ledgerbus at .* 'orders/\$dlq' --messages`)
	checkOutput(t, types(t, data, "at", sent, "orders/$dlq", "--messages"), `^at .*Z: 1 entity with 0 messages\n$`)
	checkOutput(t, types(t, data, "at", "now", "orders/$transfer/$dlq"), `1 entity with 0 messages\n`)
	checkOutput(t, types(t, data, "diff", sent, "now", "orders/$dlq"), `\norders/\$dlq: messages 0 → 3\n`, `orders/\$dlq between: 3 dead-lettered\n`)
	if got := types(t, data, "diff", sent, "now", "orders/$dlq", "--messages"); strings.Count(got, " arrived ") != 3 || strings.Contains(got, " active, 0 failed attempts → ") {
		t.Errorf("%s; want three messages that arrived in the sub-queue, and nothing of the main queue", got)
	}
	last := placeOf(t, data, "dealt with", "type = 'completed'")
	checkOutput(t, types(t, data, "diff", last, "now", "--messages"), `orders: 3 messages in the same state at both instants\n`)
	checkOutput(t, types(t, data, "diff", last, "now", "orders/$dlq", "--messages"), `orders/\$dlq: 3 messages in the same state at both instants\n`)
	checkOutput(t, types(t, data, "events", "orders/$dlq"), `^\S+  dead +orders#1 .*\n\S+  dead +orders#2 .*\n\S+  dead +orders#3 .*\n$`)
	checkOutput(t, types(t, data, "audit", "orders/$dlq"), `^no matching events\n$`)
	checkOutput(t, types(t, data, "when", "orders.dead > 1"), `^first at .*Z, @\d/\d+\n`, `sent `, `dead +orders#2 `)
	checkOutput(t, types(t, data, "when", "orders/$dlq.messages > 1"), `^first at .*Z, @\d/\d+\n`, `dead +orders#2 `)
	checkOutput(t, types(t, data, "when", "orders.dead > 7 AND orders.active = 0"), `^never: `)
	checkOutput(t, types(t, data, "audit"), `created +orders`, `changed +orders  MaxDeliveryCount 10 → 2 .* because "INC-4711"  @0/\d+\n`)
	checkOutput(t, types(t, data, "events", "orders", "--where", "type IN ('dead', 'completed')"), `dead +orders#1 `, `dead +orders#2 `, `dead +orders#3 `, `completed +orders#4 `)
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"why"}, 2, "missing entity or message"},
		{[]string{"at"}, 2, "missing instant"},
		{[]string{"at", "noon"}, 2, `"noon" is not an instant`},
		{[]string{"at", "1970-01-02", "orders"}, 1, "nothing is known of orders at 1970-01-02"},
		{[]string{"at", "@0/9"}, 1, "no frame with events begins there"},
		{[]string{"diff", "now", sent}, 2, "is after"},
		{[]string{"when", "orders.colour > 1"}, 2, `unknown count "colour"`},
		{[]string{"when", "orders/$dlq.active > 1"}, 2, "orders/$dlq has no count active; a sub-queue has messages, locked, deferred"},
		{[]string{"when", "orders"}, 2, "is not a condition"},
		{[]string{"events", "--where", "type IN"}, 2, "--where"},
		{[]string{"events", "orders", "--where", "tpye = 'dead'"}, 2, "unknown column tpye; the columns are time, type, entity, number, detail, by, place, event, reason\n"},
		{[]string{"audit", "--where", "Type = 'purged' OR EXISTS(queue)"}, 2, "unknown column queue"},
		{[]string{"when", "orders.colour > 1 AND orders.active > 0"}, 2, `unknown count "colour"; the counts are messages, active, dead,`},
		{[]string{"audit", "orders#1"}, 2, "ledgerbus story orders#1"},
		{[]string{"events", "orders", "bills"}, 2, `extra argument "bills"; usage: ledgerbus events [ENTITY]`},
		{[]string{"events", ""}, 2, "entity is empty"},
		{[]string{"events", "--since", ""}, 2, "since is empty"},
	} {
		if r := execute(t, "", "", append(c.args, "--data", data)...); r.code != c.code || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%q: %+v; want r.code == c.code && strings.Contains(r.errOut, c.text)", c.args, r)
		}
	}
}

// TestPathUsedTwice asks about a path that two entities have had. A broker, its directory, a
// backup, a slice and tables show both.
func TestPathUsedTwice(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	broker, stop := startStoppable(t, data)
	copied := filepath.Join(dir, "copy")
	for _, args := range [][]string{
		{"queue", "create", "a"}, {"send", "a", "--body", "x", "--count", "3"}, {"receive", "a", "--dead-letter"}, {"queue", "delete", "a", "--confirm", "a"}, {"queue", "create", "a"},
		{"send", "a", "--body", "y"}, {"backup", "--into", copied},
	} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v; want r.code == 0", args, r)
		}
	}
	var full string
	for line := range strings.Lines(execute(t, broker, "", "events", "a", "--type", "dead", "-o", "csv").out) {
		full = line[:max(0, strings.IndexByte(line, ','))]
	}
	questions := []struct {
		args string
		want []string
	}{
		{"at|" + full + "|a", []string{`a +active 2 · dead 1 `}},
		{"when|a.active > 2", []string{`^first at `, `sent +a#3 `}},
		{"diff|" + full + "|now|a", []string{`a: messages 3 → 1 · active 2 → 1 · dead 1 → 0`, `act: .* deleted +a `, `act: .* created +a `}},
		{"audit|a", []string{`^\S+  created +a .*\n\S+  deleted +a .*\n\S+  created +a .*\n$`}},
		{"events|a|--type|sent", []string{`sent +a#1 `, `sent +a#2 `, `sent +a#3 `, `sent +a#1 `}},
		{"events|a/$dlq", []string{`dead +a#1 `, `dropped +a `}},
		{"story|a#1", []string{`^about the a created at .* and deleted at `, `DELETED WITH ITS ENTITY at `, `about the a created at `, `WAITING`}},
	}
	said := make([]string, len(questions))
	for i, q := range questions {
		r := execute(t, broker, "", strings.Split(q.args, "|")...)
		checkOutput(t, r.out, q.want...)
		said[i] = r.out
	}
	stop()
	for i, q := range questions {
		for _, from := range []string{data, copied} {
			// it says what now is
			if got := types(t, from, strings.Split(q.args, "|")...); got != said[i] && !strings.HasPrefix(q.args, "diff") {
				t.Errorf("%s of %s:\n%s\nthe broker said\n%s", q.args, from, got, said[i])
			} else {
				checkOutput(t, got, q.want...)
			}
		}
	}
	out, cut := filepath.Join(dir, "out"), filepath.Join(dir, "cut")
	if r := execute(t, "", "", "log", "export", data, "--into", out, "--entity", "a", "--type", "sent"); !strings.HasPrefix(r.out, "4 events, 4 messages, ") {
		t.Errorf("export: %+v", r)
	}
	if r := execute(t, "", "", "slice", data, "--into", cut, "--entity", "a"); r.code != 0 {
		t.Errorf("slice: %+v", r)
	}
	checkOutput(t, types(t, cut, "when", "a.active > 2"), questions[1].want...)
	checkOutput(t, execute(t, "", "", "debug", cut, "-c", "break when a.active > 2; continue; print").out, `sent +a#3 `, `a +active 3 `)
}

// placeOf returns the place of the first event that matches a condition.
func placeOf(t *testing.T, data, what, where string) string {
	t.Helper()
	lines := strings.Split(types(t, data, "events", "orders", "--where", where, "-o", "csv"), "\n")
	for _, field := range strings.Split(lines[1], ",") {
		if strings.HasPrefix(field, "@") {
			return field
		}
	}
	t.Fatalf("%s: %q", what, lines)
	return ""
}

// Every question about the past has a help text.
func TestPastHelp(t *testing.T) {
	for _, name := range []string{"story", "why", "at", "diff", "when", "audit", "events", "trace", "doctor"} {
		r := execute(t, "", "", name, "--help")
		if r.code != 0 || !strings.Contains(r.out, "   ledgerbus "+name+" ") || !strings.Contains(r.out, "--data value") || !strings.Contains(r.out, "text, json (one object per line), or csv") {
			t.Errorf(`%s: %+v; want r.code == 0 && strings.Contains(r.out, "   ledgerbus "+name+" ") && strings.Contains(r.out, "--data value") && strings.Contains(r.out, "text, json (one object per line), or csv")`, name, r)
		}
	}
}

// An instant later than now is refused.
func TestFutureIsRefused(t *testing.T) {
	for _, args := range [][]string{{"at", "2999-01-01"}, {"diff", "-1h", "2999-01-01"}} {
		r := execute(t, "", "", append(args, "--data", t.TempDir())...)
		if r.code != 2 || !strings.Contains(r.errOut, `"2999-01-01" is later than now, which is 2`) {
			t.Errorf("%v: %+v; want r.code == 2", args, r)
		}
	}
}
