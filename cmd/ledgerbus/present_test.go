package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// fill gives a broker a queue orders with messages in several states, a partitioned queue and a
// queue with sessions.
func fill(t *testing.T, broker string) {
	t.Helper()
	for _, args := range [][]string{
		{"queue", "create", "carts", "--requires-session"},
		{"queue", "create", "parts", "--enable-partitioning"},
		{"topic", "create", "weather"},
		{"subscription", "create", "weather", "audit"},
		{"send", "orders", "--body", "x", "--count", "5"},
		{"receive", "orders", "--defer"},
		{"receive", "orders", "--dead-letter"},
		{"receive", "orders"}, // leaves it locked
		{"send", "orders", "--body", "later", "--schedule-in", "10h"},
		{"send", "parts", "--body", "x", "--count", "9"},
		{"send", "weather", "--body", "x"},
		{"send", "carts", "--body", "x", "--session-id", "b"},
		{"send", "carts", "--body", "x", "--session-id", "a", "--count", "2"},
	} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v", args, r)
		}
	}
}

// onlyBroker are the parts of answers that only a running broker has, and the times at which an
// entity was last used: the log has them an hour late.
var onlyBroker = regexp.MustCompile(`,"(received|delivered|completed|failed|died)":[0-9.]+`)

// TestPresent: a broker and the end of its log give the same answers.
func TestPresent(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	fill(t, broker)
	questions := [][]string{
		{"queue", "list", "--sort", "oldest", "-o", "json"},
		{"queue", "list", "--sort", "deadletter", "--top", "1", "-o", "json"},
		{"queue", "list", "--prefix", "P", "-o", "json"},
		{"subscription", "list", "weather", "--sort", "active", "-o", "json"},
		{"sessions", "carts", "-o", "json"},
		{"sessions", "carts", "--top", "1", "-o", "json"},
		{"messages", "orders", "-o", "json"},
		{"messages", "orders", "--bodies", "--state", "scheduled", "-o", "json"},
		{"messages", "orders/$dlq", "--where", "body.x IS NULL AND sys.DeliveryCount >= 0", "-o", "csv"},
		{"messages", "parts", "--top", "5", "-o", "json"},
		{"messages", "carts", "--session", "a", "--where", "state = 'active'", "--bodies"},
	}
	var want []string
	for _, q := range questions {
		r := execute(t, broker, "", q...)
		if r.code != 0 || r.out == "" {
			t.Fatalf("%q: %+v", q, r)
		}
		want = append(want, onlyBroker.ReplaceAllString(r.out, ""))
	}
	checkOutput(t, want[0], `"name":"orders","kind":"queue","status":"Active","messages":6,"active":4,"locked":1,"deferred":1,"scheduled":1,"deadLetter":1,"transfer":0,"transferDeadLetter":0`, `"oldest":"20`, `"oldestDeadLetter":"20`)
	checkOutput(t, want[2], `^\{"name":"parts","kind":"queue","status":"Active","messages":9`)
	checkOutput(t, want[4], `^\{"session":"a","active":2,.*\n\{"session":"b","active":1`)
	if strings.Contains(want[4], `":""`) {
		t.Errorf("sessions have empty values: %s", want[4])
	}
	stop()
	for i, q := range questions {
		r := execute(t, "", "", append(q, "--data", data)...)
		if r.code != 0 || r.out != want[i] {
			t.Errorf("%q: %+v\nwant %s", q, r, want[i])
		}
	}
	r := execute(t, "", "", "top", "--data", data)
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	checkOutput(t, r.out, `the state at the end of the log; health, connections and rates are not recorded\n`, `5 queues, topics and subscriptions with 19 messages: active 17, locked 1`, `oldest message: .* in orders\n`, `NAME +STATUS +ACTIVE`)
}

// TestTop: the first lines report whether the broker is well, and the table begins with the worst
// entity.
func TestTop(t *testing.T) {
	t.Parallel()
	broker := startBroker(t)
	fill(t, broker)
	r := execute(t, broker, "", "top", "--sort", "deadLetter", "--top", "2")
	if r.code != 0 || strings.Contains(r.out, "\x1b") {
		t.Fatalf("%+v", r)
	}
	checkOutput(t, r.out, `Z  ledgerbus .*, up .* connection`, `healthy: no lasting condition\n`, `with 19 messages`, `oldest message: `, `\norders +Active +4 +1 +1 +1 +1 `)
	r = execute(t, broker, "", "top", "--sort", "MESSAGES", "--top", "1")
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	checkOutput(t, r.out, `NAME .* MESSAGES *\n`, `parts .* 9 *\n`)
}

// TestPresentUsage: invalid questions end with exit code 2 and name what exists.
func TestPresentUsage(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"queue", "list", "--sort", "age"}, 2, "the sorts are path, active,"},
		{[]string{"top", "--sort", "age"}, 2, "the sorts are path, active,"},
		{[]string{"top", "--top", "0"}, 2, "--top is 0, and must be 1 to 200"},
		{[]string{"top", "orders"}, 2, "takes no argument"},
		{[]string{"queue", "list", "--top", "0"}, 2, "--top is 0, and must be at least 1"},
		{[]string{"sessions"}, 2, "takes the path of a queue or a subscription"},
		{[]string{"sessions", "nosuch"}, 1, `here is no entity "nosuch"`},
		{[]string{"queue", "list", "--live", "--sort", "path"}, 2, "--live needs --data"},
	} {
		if r := execute(t, broker, "", c.args...); r.code != c.code || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%q: %+v; want code %d and %q", c.args, r, c.code, c.text)
		}
	}
	stop()
	if r := execute(t, "", "", "top", "--sort", "age", "--data", data); r.code != 2 || !strings.Contains(r.errOut, "the sorts are") {
		t.Errorf("%+v", r)
	}
	if r := execute(t, "", "", "sessions", "nosuch", "--data", data); r.code != 1 || !strings.Contains(r.errOut, "there is no entity") {
		t.Errorf("%+v", r)
	}
}

// TestUntil: the condition of a script is awaited, and what it lacks is said at the timeout.
func TestUntil(t *testing.T) {
	t.Parallel()
	broker := startBroker(t)
	fill(t, broker)
	for _, c := range []struct {
		condition string
		code      int
		text      string
	}{
		{"orders.messages = 6 AND orders.locked = 1 and orders.deferred = 1 AND orders.dead = 1 AND orders.deadLetter = 1 AND orders.scheduled = 1", 0, ""},
		{"orders/$dlq.messages = 1 AND orders.size > 0 AND orders.transfer = 0 AND orders.transferdead = 0 AND orders.active <> 0", 0, ""},
		{"ORDERS.messages >= 7", 1, "not true within 10ms: ORDERS.messages >= 7 (it is 6)"},
		{"orders.mesages = 0", 2, `unknown count "mesages"; the counts are messages, active,`},
		{"orders/$dlq.locked = 0", 2, "of a sub-queue only messages can be awaited"},
		{"orders", 2, "is not a condition"},
		{"nosuch.messages = 0", 1, `here is no entity "nosuch"`},
	} {
		if r := execute(t, broker, "", "until", c.condition, "--timeout", "10ms"); r.code != c.code || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%q: %+v; want code %d and %q", c.condition, r, c.code, c.text)
		}
	}
	done := make(chan result)
	go func() { done <- execute(t, broker, "", "until", "orders.active = 5", "--timeout", "unlimited") }()
	if r := execute(t, broker, "", "send", "orders", "--body", "x"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := <-done; r.code != 0 {
		t.Errorf("%+v", r)
	}
}

// TestUntilBrokerComesBack: a broker that does not answer, or is busy, is asked again. An error of
// the question ends the wait.
func TestUntilBrokerComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wants, err := ledger.ParseComparisons("orders.messages = 0")
		if err != nil {
			t.Fatal(err)
		}
		answers := []error{&admin.Error{}, &admin.Error{Status: 503, Code: "busy"}, nil}
		look := func(context.Context, string) (rows.Entity, error) {
			err := answers[0]
			answers = answers[min(1, len(answers)-1):]
			return rows.Entity{}, err
		}
		if err := waitUntil(t.Context(), look, wants, time.Minute); err != nil {
			t.Error(err)
		}
		answers = []error{&admin.Error{Text: "connection refused"}}
		if err := waitUntil(t.Context(), look, wants, time.Minute); err == nil || !strings.Contains(err.Error(), "not true within 1m: : connection refused") {
			t.Errorf("%v", err)
		}
		answers = []error{&admin.Error{Status: 401, Text: "no"}}
		if err := waitUntil(t.Context(), look, wants, quantity.Unlimited); err == nil || err.Error() != ": no (status 401)" {
			t.Errorf("%v", err)
		}
	})
}
