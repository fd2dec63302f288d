package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// must fails the test for an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func receiveOne(t *testing.T, r *client.Receiver) *amqp.Message {
	t.Helper()
	must(t, r.Credit(1))
	m, err := r.Receive(t.Context())
	must(t, err)
	return m
}

// liveThreeMessages sends three messages to the queue orders: one is abandoned and dead-lettered,
// one expires, and one is completed.
func liveThreeMessages(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	sender, err := c.NewSender(ctx, "orders")
	must(t, err)
	live, err := c.NewReceiver(ctx, "orders", client.PeekLock)
	must(t, err)
	dead, err := c.NewReceiver(ctx, "orders/$DeadLetterQueue", client.PeekLock)
	must(t, err)
	must(t, sender.Send(ctx, client.NewMessage([]byte("first"))))
	mortal := client.NewMessage([]byte("second"))
	mortal.Header = &amqp.MessageHeader{TTL: time.Millisecond}
	must(t, sender.Send(ctx, mortal))
	must(t, live.Abandon(ctx, receiveOne(t, live)))
	m := receiveOne(t, live)
	_, err = c.RenewLocks(ctx, "orders", client.LockToken(m))
	must(t, err)
	must(t, live.DeadLetter(ctx, m, "bad", "it is"))
	must(t, sender.Send(ctx, client.NewMessage([]byte("third"))))
	must(t, live.Complete(ctx, receiveOne(t, live)))
	must(t, dead.Complete(ctx, receiveOne(t, dead)))
}

// SM-372: for each message the log lists all its events, from enqueue to end, with time, cause and
// origin.
func TestHistoryOfAMessage(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), nil)
	srv := start(t, s)
	c := dial(t, srv)
	began := time.Now().Add(-time.Millisecond)
	liveThreeMessages(t, c)
	must(t, srv.Close())

	var dump bytes.Buffer
	must(t, tools.Dump(&dump, s.Storage.Data, tools.DumpOptions{Partition: -1, JSON: true}))
	histories := map[int]string{}
	last := began
	for line := range strings.Lines(dump.String()) {
		var e struct {
			Time                     time.Time
			Event, Cause, Reason, By string
			Sequence                 int
		}
		must(t, json.Unmarshal([]byte(line), &e))
		if e.Sequence == 0 {
			continue // not of a message
		}
		words := strings.Fields(e.Event + " " + e.Cause + " " + e.Reason)
		if strings.Contains(e.By, "RootManageSharedAccessKey 127.0.0.1:") {
			words = append(words, "(client)")
		}
		histories[e.Sequence] += strings.Join(words, " ") + "\n"
		if e.Time.Before(last) || e.Time.After(time.Now()) {
			t.Errorf("%s at %v, behind %v", e.Event, e.Time, last)
		}
		last = e.Time
	}
	for n, want := range map[int]string{
		1: `MessageEnqueued (client)
MessageLocked (client)
MessageAbandoned (client)
MessageLocked (client)
LockRenewed (client)
MessageDeadLettered application bad (client)
MessageLocked (client)
MessageCompleted (client)
`,
		2: "MessageEnqueued (client)\nMessageExpired\n", // by itself
		3: "MessageEnqueued (client)\nMessageLocked (client)\nMessageCompleted (client)\n",
	} {
		if histories[n] != want {
			t.Errorf("message %d:\n%swant\n%s", n, histories[n], want)
		}
	}
}

// The log records each refusal with its recipient and reason, whether or not the engine decided it.
// It also records the program that ran and its settings.
func TestRefusalsAreInTheLog(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), nil)
	s.Version = "1.2.3"
	for range 2 {
		srv := start(t, s)
		c := dial(t, srv)
		live, err := c.NewReceiver(t.Context(), "orders", client.PeekLock)
		must(t, err)
		dead, err := c.NewReceiver(t.Context(), "orders/$DeadLetterQueue", client.PeekLock)
		must(t, err)
		sender, err := c.NewSender(t.Context(), "orders")
		must(t, err)
		must(t, sender.Send(t.Context(), client.NewMessage([]byte("bad"))))
		must(t, live.DeadLetter(t.Context(), receiveOne(t, live), "bad", "it is"))
		m := receiveOne(t, dead)
		if err := dead.DeadLetter(t.Context(), m, "worse", "still"); err == nil {
			t.Error("a dead letter is dead-lettered")
		}
		if _, err := c.RenewLocks(t.Context(), "orders", client.LockToken(m)); err == nil {
			t.Error("a lock of the dead-letter queue is renewed in the main one")
		}
		strange := client.NewMessage([]byte("strange"))
		strange.Format = 7
		if err := sender.Send(t.Context(), strange); err == nil {
			t.Error("a message of a format that nobody knows is taken")
		}
		must(t, srv.Close())
	}
	var dump bytes.Buffer
	must(t, tools.Dump(&dump, s.Storage.Data, tools.DumpOptions{Partition: -1, JSON: true}))
	var settlements, sends, runs []string
	for line := range strings.Lines(dump.String()) {
		var e struct {
			Event, Wanted, Why, Stop, Version, Settings, By, SubQueue string
			Sequence, Partition, Count                                int
		}
		must(t, json.Unmarshal([]byte(line), &e))
		switch e.Event {
		case "SendsRefused":
			sends = append(sends, fmt.Sprint(e.Count, " ", e.Why, " ", strings.Contains(e.By, "RootManageSharedAccessKey 127.0.0.1:")))
		case "SettlementRefused":
			settlements = append(settlements, fmt.Sprint(e.Sequence, " ", e.SubQueue, " ", e.Wanted, " ", e.Why))
			if !strings.Contains(e.By, "RootManageSharedAccessKey 127.0.0.1:") {
				t.Errorf("%s says it was %q", e.Event, e.By)
			}
		case "RunStarted":
			runs = append(runs, fmt.Sprint(e.Partition, " ", e.Version, " ", e.Stop, " ", e.Settings == s.Fingerprint()))
		}
	}
	slices.Sort(runs)
	for _, x := range []struct {
		what      string
		got, want []string
	}{
		{"settlements", settlements, []string{"1 dead-letter dead-letter not-allowed", "1  renew lock-lost", "2 dead-letter dead-letter not-allowed", "2  renew lock-lost"}},
		{"sends", sends, []string{"1 other true", "1 other true"}},
		{"runs", runs[:2], []string{"0 1.2.3 clean true", "0 1.2.3 none true"}},
	} {
		if !slices.Equal(x.got, x.want) {
			t.Errorf("%s: %q, it must be %q", x.what, x.got, x.want)
		}
	}
}

// The log records which links existed, from when to when, and why they ended, with the requests on
// each link in between.
func TestHistoryOfLinks(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), nil)
	srv := start(t, s)
	c := dial(t, srv)
	liveThreeMessages(t, c)
	must(t, srv.Close())
	var dump bytes.Buffer
	must(t, tools.Dump(&dump, s.Storage.Data, tools.DumpOptions{Partition: -1, JSON: true}))
	histories := map[string][]string{}
	for line := range strings.Lines(dump.String()) {
		var e struct{ Event, Role, SubQueue, Cause, By string }
		must(t, json.Unmarshal([]byte(line), &e))
		if e.By != "" {
			histories[e.By] = append(histories[e.By], strings.Join(strings.Fields(e.Event+" "+e.Role+" "+e.SubQueue+" "+e.Cause), " "))
		}
	}
	links := map[string]bool{}
	for by, history := range histories {
		last := history[len(history)-1]
		if strings.HasPrefix(history[0], "LinkOpened ") && len(history) > 2 && last == "LinkClosed stop" {
			links[history[0]] = true
		} else if slices.Contains(history, "LinkClosed stop") || strings.HasPrefix(history[0], "LinkOpened ") {
			t.Errorf(`%s: %q; want !slices.Contains(history, "LinkClosed stop") && !strings.HasPrefix(history[0], "LinkOpened ")`, by, history)
		}
	}
	for _, want := range []string{"LinkOpened sender", "LinkOpened receiver", "LinkOpened receiver dead-letter"} {
		if !links[want] {
			t.Errorf("%s is not there among %v", want, histories)
		}
	}
}

// reliability.md S14, semantics.md 17: the log names the unmodified Go SDK as it names itself. It
// records one connection with its container, product and version, and three links (a sender, a
// receiver, and one for the renewal) with the signing rule.
func TestProvenanceOfAnSDK(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), nil)
	srv := start(t, s)
	roundTrip(t, srv.ConnectionString(), nil)
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	if err := tools.Dump(&dump, s.Storage.Data, tools.DumpOptions{Partition: -1, JSON: true}); err != nil {
		t.Fatal(err)
	}
	origins, by := map[uint64]event.Origin{}, map[string]event.Origin{}
	for line := range strings.Lines(dump.String()) {
		var e struct {
			Event, By string
			ID        uint64
			Origin    event.Origin
			Sequence  int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "OriginDefined" {
			origins[e.ID] = e.Origin
		}
		if e.Sequence == 0 {
			continue
		}
		var id uint64
		if _, err := fmt.Sscanf(e.By, "origin %d:", &id); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		o := origins[id]
		for _, word := range []string{o.Product, o.Link, o.ContainerID} {
			if word == "" || !strings.Contains(e.By, " "+word) {
				t.Errorf("%q is not in %q", word, e.By)
			}
		}
		if product, version, _ := strings.Cut(o.Product, "/"); product != "MSGolangClient" || !strings.HasPrefix(version, "v1.") {
			t.Errorf("%s: product %q", e.Event, o.Product)
		}
		if o.Connection == 0 || o.Principal != "RootManageSharedAccessKey" || !strings.HasPrefix(o.RemoteAddress, "127.0.0.1:") || o.Entity != "orders" {
			t.Errorf(`%s: %+v; want o.Connection != 0 && o.Principal == "RootManageSharedAccessKey" && strings.HasPrefix(o.RemoteAddress, "127.0.0.1:") && o.Entity == "orders"`, e.Event, o)
		}
		by[e.Event] = o
	}
	sent, received, renewed, completed := by["MessageEnqueued"], by["MessageLocked"], by["LockRenewed"], by["MessageCompleted"]
	if sent.Link == received.Link || renewed.Link == received.Link || renewed.Link == sent.Link || completed.Link != received.Link {
		t.Errorf("links %q, %q, %q, %q", sent.Link, received.Link, renewed.Link, completed.Link)
	}
	for name, o := range by {
		o.Link = sent.Link
		if o != sent {
			t.Errorf("%s: %+v is not the connection of %+v", name, o, sent)
		}
	}
}
