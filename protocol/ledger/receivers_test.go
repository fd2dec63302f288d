package ledger

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// liveState is one queue, "orders", with the state of its partitions and connections.
type liveState struct {
	path       string // that was asked for last
	partitions []engine.PartitionNow
	links      engine.LinksNow
}

var orders = &engine.Entity{ID: 7, Path: "orders", Hosts: []engine.PartitionID{0}}

// Resolve implements [engine.Live].
func (l *liveState) Resolve(path string) (engine.Target, error) {
	l.path = path
	name, q := engine.SplitPath(path)
	if name != "orders" {
		return engine.Target{}, engine.NoEntity(path)
	}
	return engine.Target{Entity: orders, SubQueue: q}, nil
}

// Receiving implements [engine.Live].
func (l *liveState) Receiving(context.Context, engine.Target) []engine.PartitionNow {
	return l.partitions
}

func (l *liveState) receivers(context.Context, engine.Target) engine.LinksNow { return l.links }

// TestReceivers: the request, its refusals, and the answer for a queue without any known state.
func TestReceivers(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const path = "/$ledger/v1/receivers"
	a.is(a.do("GET", path+"?entity=orders", ""), `{"at":"2026-01-01T00:00:00Z","entity":"orders","why":["no receiver is attached"],"messages":{"messages":0,"active":0,"locked":0,"deferred":0,"scheduled":0,"deadLetter":0,"transfer":0,"transferDeadLetter":0,"sizeBytes":0},"available":0,"partitions":[],"receivers":[],"refused":[]}`)
	a.fake.live.partitions = []engine.PartitionNow{{Mail: 3, MaxMail: 100}}
	a.fake.live.links.Silent = []uint64{4}
	a.is(a.do("GET", path+"?entity=/orders/$dlq", ""), `{"at":"2026-01-01T00:00:00Z","entity":"orders/$DeadLetterQueue","why":["partition 0 waits for its disk and takes no requests: 3 are queued"],"partitions":[{"id":0,"state":"serving","trouble":"partition 0 waits for its disk and takes no requests: 3 are queued","requests":3}],"receivers":[],"refused":[],"silent":[4]}`)
	for _, query := range []string{"", "?entity=", "?entity=/"} {
		a.refused(a.do("GET", path+query, ""), 400, "invalid", "parameter entity; it is the path")
	}
	a.refused(a.do("GET", path+"?entity=a&top=3", ""), 400, "invalid", `no parameter "top"; it takes entity`)
	a.refused(a.do("GET", path+"?entity=a&entity=b", ""), 400, "invalid", "entity is given 2 times")
	a.refused(a.do("GET", path+"?entity=none", ""), 404, "not-found", "none")
	a.refused(a.do("GET", path+"?entity=orders", "", "Authorization", sign("sb://"+host, "sender", sendKey)), 403, "forbidden", "ReadHistory")
	a.refused(a.do("POST", path, ""), 405, "method-not-allowed", "GET")
}

// TestVerdict: of several causes the verdict names the one that has to end first. Causes that real
// connections can produce are tested in protocol/servicebus.
func TestVerdict(t *testing.T) {
	t.Parallel()
	well := func() engine.LinkNow { return engine.LinkNow{Credit: 5, Passed: 5, MaxHeld: 10, Window: 100} }
	type change func(l *engine.LinkNow, p *engine.PartitionNow, port *engine.PortNow)
	for _, c := range []struct {
		change change
		want   string
	}{
		{func(*engine.LinkNow, *engine.PartitionNow, *engine.PortNow) {}, "gets the next message"},
		{func(_ *engine.LinkNow, _ *engine.PartitionNow, port *engine.PortNow) {
			port.SessionFull, port.Session = true, "A"
		}, `its session "A" has reached its limit of locked messages`},
		{func(_ *engine.LinkNow, _ *engine.PartitionNow, port *engine.PortNow) { port.Late = 3 }, "waits for 3 earlier requests of its connection"},
		{func(_ *engine.LinkNow, p *engine.PartitionNow, port *engine.PortNow) {
			p.Conditions, port.Late = []string{"disk-full"}, 3
		}, "the disk of partition 0 is full"},
		{func(l *engine.LinkNow, p *engine.PartitionNow, _ *engine.PortNow) {
			p.Conditions, l.Credit = []string{"disk-hangs"}, 0
		}, "no credit"},
		{func(l *engine.LinkNow, p *engine.PartitionNow, _ *engine.PortNow) {
			p.Answered, p.Turn = false, 3*time.Second
		}, "partition 0 does not answer: its turn has taken 3s so far"},
		{func(l *engine.LinkNow, p *engine.PartitionNow, _ *engine.PortNow) {
			p.Answered, p.State = false, engine.PartitionStarting
		}, "partition 0 is starting"},
		{func(l *engine.LinkNow, _ *engine.PartitionNow, port *engine.PortNow) { port.Queued, l.Unsent = 0, 2 }, "2 deliveries are on the way to it"},
		{func(_ *engine.LinkNow, _ *engine.PartitionNow, port *engine.PortNow) { port.Queued = 0 }, "unknown: its credit is on its way"},
		{func(l *engine.LinkNow, _ *engine.PartitionNow, _ *engine.PortNow) { l.Window, l.Credit = 0, 0 }, "its client takes no transfers"},
		{func(l *engine.LinkNow, _ *engine.PartitionNow, _ *engine.PortNow) {
			l.Blocked, l.Backlog, l.Window = 2100*time.Millisecond, 4096, 0
		}, "waits for its socket: 4096 bytes are not written, and the write began 2.1s ago"},
		{func(l *engine.LinkNow, _ *engine.PartitionNow, _ *engine.PortNow) { l.Held = 10 }, "its connection holds 10 of 10 unsettled"},
	} {
		r := &engine.Receiver{Entity: orders, Origin: &engine.Origin{}}
		l, p := well(), engine.PartitionNow{Answered: true, MaxMail: 100, Messages: &engine.MessagesNow{Available: 1}, Ports: []engine.PortNow{{Receiver: r, Credit: 5, Queued: 5}}}
		l.Receiver = r
		c.change(&l, &p, &p.Ports[0])
		if got := showReceivers(engine.Target{Entity: orders}, []engine.PartitionNow{p}, engine.LinksNow{Links: []engine.LinkNow{l}}).Receivers[0].Verdict; !strings.HasPrefix(got, c.want) {
			t.Errorf("%q; want %q in front", got, c.want)
		}
	}
}

// TestVerdictOfPartitions: with several partitions one that works is enough, and the best place
// counts.
func TestVerdictOfPartitions(t *testing.T) {
	t.Parallel()
	split := &engine.Entity{ID: 8, Path: "split", Hosts: []engine.PartitionID{0, 1}}
	r := &engine.Receiver{Entity: split, Origin: &engine.Origin{}}
	ports := func(before int) []engine.PortNow {
		return []engine.PortNow{{Receiver: r, Credit: 5, Queued: 5, Before: before}}
	}
	parts := []engine.PartitionNow{{Answered: true, Ports: ports(4)}, {ID: 1, Answered: true, Ports: ports(2)}}
	links := engine.LinksNow{Links: []engine.LinkNow{{Receiver: r, Credit: 5, MaxHeld: 10, Window: 1}}}
	verdict := func() string { return showReceivers(engine.Target{Entity: split}, parts, links).Receivers[0].Verdict }
	if got := verdict(); got != "waits its turn; 2 others are served first" {
		t.Error(got)
	}
	parts[1] = engine.PartitionNow{ID: 1, State: engine.PartitionFenced}
	if got := verdict(); got != "waits its turn; 4 others are served first" {
		t.Error(got)
	}
	parts[0] = engine.PartitionNow{State: engine.PartitionFenced}
	if got := verdict(); got != "partition 0 is fenced; partition 1 is fenced" {
		t.Error(got)
	}
}

// TestObstacles: causes that keep every receiver from messages, as far as they need no client.
func TestObstacles(t *testing.T) {
	t.Parallel()
	full := []engine.PartitionNow{{Answered: true, Attached: 5, MaxAttached: 5}}
	for _, c := range []struct {
		change func(*engine.Target)
		want   string
	}{
		{func(*engine.Target) {}, "5 receivers are attached, which is the limit: others are refused"},
		{func(of *engine.Target) { of.Entity.Properties.Status = event.Disabled }, "its status is Disabled: receiving is not allowed"},
		{func(of *engine.Target) {
			of.SubQueue, of.Entity.Properties.ForwardDeadLetteredMessagesTo = event.DeadLetter, "dead"
		}, "it forwards to dead: receiving is not allowed"},
	} {
		of := engine.Target{Entity: &engine.Entity{Path: "q"}}
		c.change(&of)
		if got := obstacles(of, full, 5, false); !slices.Contains(got, c.want) {
			t.Errorf("%q; want %q", got, c.want)
		}
	}
}

// An answer fits into the limit of clients, whatever texts peers have sent.
func TestReceiversFit(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	odd := strings.Repeat("<\x01", 600)
	a.fake.live.partitions = []engine.PartitionNow{{Answered: true}}
	for i := range 1000 {
		r := &engine.Receiver{Entity: orders, Origin: &engine.Origin{Connection: uint64(i), RemoteAddress: "[2001:db8::1]:65535", ContainerID: odd, Product: odd, Principal: odd, Link: odd}}
		a.fake.live.partitions[0].Ports = append(a.fake.live.partitions[0].Ports, engine.PortNow{Receiver: r, HasSession: true, Session: odd, SessionFull: true})
		a.fake.live.links.Links = append(a.fake.live.links.Links, engine.LinkNow{Receiver: r, Credit: 1, MaxHeld: 1, Window: 1})
		a.fake.live.links.Refused = append(a.fake.live.links.Refused, engine.RefusedLink{Text: odd[:512], Origin: *r.Origin})
	}
	w := a.do("GET", "/$ledger/v1/receivers?entity=orders", "")
	if w.Code != 200 || w.Body.Len() > 1<<20 || !strings.Contains(w.Body.String(), `"more":800`) {
		t.Error(fmt.Sprint(w.Code, w.Body.Len()))
	}
}

// TestEachCauseIsSeen: the guide names, for each cause of a waiting delivery, the command or the
// text that shows it.
func TestEachCauseIsSeen(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/guide/waiting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| --- | --- | --- |\n")
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows++
		cells := strings.Split(line, " | ")
		if seen := cells[len(cells)-1]; len(cells) != 3 || !strings.Contains(seen, "`ledgerbus ") && !strings.Contains(seen, `"`) {
			t.Errorf("nothing shows this cause: %s", line)
		}
	}
	if rows < 20 {
		t.Errorf("%d causes; is that the table?", rows)
	}
}
