package main

import (
	"strings"
	"testing"
)

// The names that answers have for things can be given to commands.
func TestAddresses(t *testing.T) {
	broker := startBroker(t)
	for range 3 {
		if r := execute(t, broker, "", "send", "orders", "--body", "x"); r.code != 0 {
			t.Fatalf("%+v; want r.code == 0", r)
		}
	}
	if r := execute(t, broker, "", "receive", "orders", "--dead-letter"); r.code != 0 {
		t.Fatalf("%+v; want r.code == 0", r)
	}
	for _, c := range []struct {
		args []string
		code int
		text string // that is printed, of what it prints
		n    int    // messages
	}{
		{[]string{"peek", "orders"}, 0, "#2  ", 2},
		{[]string{"peek", "orders#3"}, 0, "#3  ", 1},
		{[]string{"peek", "orders/$dlq"}, 0, "#1  ", 1},
		{[]string{"peek", "orders/$dlq#1"}, 0, "#1  ", 1},
		{[]string{"peek", "orders#1"}, 1, "no message #1 in orders", 0},
		{[]string{"peek", "orders#3", "--count", "2"}, 2, "--from, --count and --session do not go with the number", 0},
		{[]string{"peek", "@0/8"}, 2, "@0/8 is a place in a log, not an entity", 0},
		{[]string{"peek", "orders/$dead"}, 2, "no such sub-queue", 0},
		{[]string{"receive", "orders#2"}, 2, "--deferred 2", 0},
		{[]string{"send", "orders#2", "--body", "x"}, 2, "name the entity without a number", 0},
		{[]string{"receive", "orders/$dlq", "--complete"}, 0, "#1  ", 1},
	} {
		r := execute(t, broker, "", c.args...)
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.text) || strings.Count(r.out, "#") != c.n {
			t.Errorf(`%q: %+v; want r.code == c.code && strings.Contains(r.out+r.errOut, c.text) && strings.Count(r.out, "#") == c.n`, c.args, r)
		}
	}
}
