package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// TestReceiversCommand lists the receivers of a queue of a real broker, and tests invalid
// arguments.
func TestReceiversCommand(t *testing.T) {
	s := steps{t, startBroker(t)}
	s.run(0, "orders: no messages\nno receiver is attached", "receivers", "orders")
	if got := s.run(0, "…", "receivers", "orders", "-o", "json"); !strings.HasPrefix(got, `{"at":"`) || !strings.Contains(got, `"entity":"orders","why":["no receiver is attached"],"messages":{"messages":0,"active":0,`) {
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
	five, none, three, session := int32(5), 0, 3, "A"
	since := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	until := since.Add(time.Minute)
	var b strings.Builder
	err := printReceivers(output.New(&b, io.Discard, output.Text), rows.Receivers{Entity: "orders", Why: []string{"partition 1 is fenced"}, More: 3, Silent: []uint64{4},
		Receivers: []rows.Receiver{
			{Connection: 1, Remote: "1.2.3.4:5", Client: "sdk\x1b[31m/1", By: "app", Credit: &five, Passed: &five, InLoop: &five, Unsettled: &none, Since: &since, Locks: &three, LockedUntil: &until, Session: &session, Verdict: "no credit"},
			{Connection: 4, Remote: "1.2.3.4:6", Container: "c", By: "app", Verdict: "unknown: it is silent"},
		},
		Refused: []rows.RefusedReceiver{{At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Remote: "1.2.3.4:7", Client: "sdk/1", Condition: "amqp:not-allowed", Text: "no\nsession"}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `orders: ? messages
partition 1 is fenced
CONNECTION  FROM       CLIENT           BY   SINCE                     CREDIT  PASSED  IN LOOP  UNSETTLED  LOCKS  UNTIL                     SESSION  VERDICT
         1  1.2.3.4:5  sdk\u001b[31m/1  app  2030-01-02T03:00:00.000Z  5       5       5        0          3      2030-01-02T03:01:00.000Z  A        no credit
         4  1.2.3.4:6  c                app  ?                         ?       ?       ?        ?          ?                                         unknown: it is silent
more receivers: 3
connections that did not answer; their receivers may be missing: 1
refused 2030-01-02T03:04:05.000Z  1.2.3.4:7  sdk/1  amqp:not-allowed: no\nsession
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestCountMessages: the first line tells how many messages of the sub-queue a receiver can get.
func TestCountMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts    *rows.Counts
		available int
		want      string
	}{
		{nil, 0, "? messages"},
		{&rows.Counts{}, 0, "no messages"},
		{&rows.Counts{Active: 2, DeadLetter: 3}, 2, "2 active, 3 dead-lettered"},
		{&rows.Counts{Active: 1, Locked: 1, Scheduled: 4, Transfer: 1}, 0, "1 active (0 available, 1 locked), 4 scheduled, 1 in transfer"},
		{&rows.Counts{DeadLetter: 3, Locked: 1, Deferred: 1}, 1, "3 dead-lettered (1 available, 1 locked, 1 deferred)"},
	} {
		if got := countMessages(&rows.Receivers{Messages: c.counts, Available: &c.available}); got != c.want {
			t.Errorf("%+v: %q; want %q", c.counts, got, c.want)
		}
	}
}

// TestReceiversOfDirectory shows the receivers that were attached when a broker ended, and none
// after it has stopped in order.
func TestReceiversOfDirectory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	connection, stop := startStoppable(t, data)
	for _, args := range [][]string{{"send", "orders", "--body", "x"}, {"receive", "orders"}} {
		if r := execute(t, connection, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v", args, r)
		}
	}
	waiting := command(t, connection, "receive", "orders", "--wait", "60s")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	waitForAnswer(t, data, "CONNECTION", "receivers", "orders")
	killed := filepath.Join(t.TempDir(), "killed") // what a kill leaves
	if err := os.CopyFS(killed, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	checkOutput(t, types(t, killed, "receivers", "orders"), `^orders: 1 active \(0 available, 1 locked\)\n`, `CONNECTION +FROM +CLIENT +CONTAINER +BY +LINK +SINCE +LOCKS +UNTIL +SESSION *\n`,
		` 127\.0\.0\.1:.*Z +0\n`, `messages locked by receivers that have left: 1\n`, `at the end of the log, .*; not recorded: .*credit.*verdict\n`)
	checkOutput(t, types(t, killed, "receivers", "orders", "-o", "json"), `"receivers":\[\{"connection":\d+,"remote":"127`, `"since":"2`, `"locks":0`, `"notRecorded":\[.*"credit"`)
	stop()
	_ = waiting.Process.Kill()
	_ = waiting.Wait()
	checkOutput(t, types(t, data, "receivers", "orders"), `no receiver was attached at the end of the log\n`)
	for args, want := range map[string]string{"nosuch": "nothing is known of an entity nosuch", "orders#1": "is not the path of an entity"} {
		if r := execute(t, "", "", "receivers", args, "--data", data); r.code == 0 || !strings.Contains(r.errOut, want) {
			t.Errorf("receivers %s: %+v; want %q", args, r, want)
		}
	}
}
