package main

import (
	"strings"
	"testing"
)

// TestMessagesCommand searches a queue of a real broker, page by page, and tests invalid arguments.
func TestMessagesCommand(t *testing.T) {
	s := steps{t, startBroker(t)}
	for _, body := range []string{`{"order": {"id": 4711}}`, `{"order": {"id": 4712}}`, "text"} {
		if r := execute(t, s.connection, "", "send", "orders", "--body", body); r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	for _, c := range []struct {
		args, out, errOut string // parts of the outputs
		code              int
	}{
		{"messages orders --where body.order.id=4712 -o json", `{"sequenceNumber":2,"state":"active",`, "", 0},
		{"messages orders --where body.order.id=4712 -o csv", "sequenceNumber,state,enqueuedTime,", "", 0},
		{"messages orders --where body.order.id=1", "NUMBER  STATE", "no message found; ", 0},
		{"messages orders --top 1", "1  active", "1 message shown, and more may follow: add --from 2 to go on, or --top 0 for all", 0},
		{"messages orders --from 3 --bodies", "text", "", 0},
		{"messages orders --where body.order.id>'x'", "NUMBER", "messages for which the condition could not be evaluated: 2; message 1: A number and a string cannot be ordered.", 0},
		{"messages orders --where stat='x'", "", "unknown column stat; the columns are sequenceNumber, state, ", 2},
		{"messages orders --where state=\"x\"", "", "body.NAME; a text is in single quotes", 2},
		{"messages orders --state dead", "", "unknown state", 2},
		{"messages orders --top -1", "", "--top must not be negative", 2},
		{"messages", "", "messages takes the path", 2},
		{"messages none", "", "there is no entity", 1},
	} {
		r := execute(t, s.connection, "", strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.out, c.out) || !strings.Contains(strings.ToLower(r.errOut), strings.ToLower(c.errOut)) {
			t.Errorf("%s: exit code %d\n%s%s", c.args, r.code, r.out, r.errOut)
		}
	}
}
