package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// TestReceiversCommand lists the receivers of a queue of a real broker, and tests invalid
// arguments.
func TestReceiversCommand(t *testing.T) {
	s := steps{t, startBroker(t)}
	s.run(0, "orders: no messages\nno receiver is attached", "receivers", "orders")
	if got := s.run(0, "…", "receivers", "orders", "-o", "json"); !strings.HasPrefix(got, `{"entity":"orders","why":["no receiver is attached"],"messages":{"active":0,`) {
		t.Error(got)
	}
	s.run(0, "orders/$DeadLetterQueue: no messages\nno receiver is attached", "receivers", "orders/$dlq")
	for args, want := range map[string]string{
		"none": "could not be found", "": "receivers takes the path", "orders#1": "is not the path of an entity", "@0/17": "is not the path of an entity", "orders extra": "receivers takes the path",
	} {
		code := 2
		if args == "none" {
			code = 1
		}
		r := execute(t, s.connection, "", append([]string{"receivers"}, strings.Fields(args)...)...)
		if r.code != code || !strings.Contains(r.errOut, want) {
			t.Errorf("receivers %s: exit code %d, %q; want %d, %q", args, r.code, r.errOut, code, want)
		}
	}
}

// TestPrintReceivers prints an unknown number as a question mark, and removes control characters
// from clients' texts.
func TestPrintReceivers(t *testing.T) {
	five, none, session := int32(5), 0, "A"
	var b strings.Builder
	err := printReceivers(output.New(&b, io.Discard, output.Text), wire.Receivers{Entity: "orders", Why: []string{"partition 1 is fenced"}, More: 3, Silent: []uint64{4},
		Receivers: []wire.Receiver{
			{Connection: 1, Remote: "1.2.3.4:5", Client: "sdk\x1b[31m/1", By: "app", Credit: &five, Passed: &five, InLoop: &five, Unsettled: &none, Session: &session, Verdict: "no credit"},
			{Connection: 4, Remote: "1.2.3.4:6", Container: "c", By: "app", Verdict: "unknown: it is silent"},
		},
		Refused: []wire.RefusedReceiver{{At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Remote: "1.2.3.4:7", Client: "sdk/1", Condition: "amqp:not-allowed", Text: "no\nsession"}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `orders: ? messages
partition 1 is fenced
CONNECTION  FROM       CLIENT           BY   CREDIT  PASSED  IN LOOP  UNSETTLED  SESSION  VERDICT
         1  1.2.3.4:5  sdk\u001b[31m/1  app  5       5       5        0          A        no credit
         4  1.2.3.4:6  c                app  ?       ?       ?        ?                   unknown: it is silent
more receivers: 3
connections that did not answer; their receivers may be missing: 1
refused 2030-01-02T03:04:05.000Z  1.2.3.4:7  sdk/1  amqp:not-allowed: no\nsession
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
