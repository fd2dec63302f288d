package message

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

var record = flag.Bool("record", false, "write the bytes of stored property changes into testdata")

// The bytes of property changes in events, from what a peer says to what the engine hands to the log: they are those of the first
// broker that stored any (docs/log-format.md).
func TestStoredChanges(t *testing.T) {
	t.Parallel()
	const file = "testdata/changes.txt"
	got := settledChanges(t) + cutChanges(t) + brokersChanges(t) + ruleChanges(t)
	if *record {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s, line %d:\ngot  %s\nwant %s", file, i+1, line, want[min(i, len(want)-1)])
		}
	}
}

// told is the information of a dead-lettering.
func told(reason, description any) amqp.DeliveryState {
	return amqp.Rejected{Error: &amqp.Error{Info: amqp.Map{{Key: "DeadLetterReason", Value: reason}, {Key: "DeadLetterErrorDescription", Value: description}}}}
}

// settledChanges are those of settlements that fit as they are.
func settledChanges(t *testing.T) string {
	span := amqp.Described{Descriptor: amqp.Symbol("com.microsoft:timespan"), Value: int64(-5)}
	var each amqp.Map
	for i, v := range []any{nil, true, false, int8(-1), uint8(200), int16(-300), uint16(65535), int32(5), int32(math.MaxInt32), uint32(0), uint32(9),
		uint32(math.MaxUint32), int64(5), int64(math.MinInt64), uint64(0), uint64(7), uint64(math.MaxUint64), float32(0.5), 1.25, amqp.Char('é'),
		amqp.Timestamp(-1), amqp.UUID{1, 2, 255}, []byte("bytes"), "text", "größe", "", amqp.Symbol("sym"), span,
		amqp.Opaque{Code: amqp.CodeDecimal32, Bytes: []byte{1, 2, 3, 4}}, strings.Repeat("x", 255), strings.Repeat("x", 256)} {
		each = append(each, amqp.Pair{Key: fmt.Sprint("k", i), Value: v})
	}
	var out strings.Builder
	for _, c := range []struct {
		name  string
		state amqp.DeliveryState
	}{
		{"nothing", amqp.Modified{}},
		{"an empty map", amqp.Modified{MessageAnnotations: amqp.Map{}}},
		{"dead-lettered without a word", amqp.Rejected{}},
		{"reason and description", told("why", "because")},
		{"empty ones", told("", "")},
		{"null ones", told(nil, nil)},
		{"symbols", told(amqp.Symbol("why"), amqp.Symbol("because"))},
		{"numbers", told(int32(1), uint64(2))},
		{"the largest short map", told("why", strings.Repeat("x", 201))},
		{"the smallest long map", told("why", strings.Repeat("x", 202))},
		{"a long text", told("why", strings.Repeat("x", 256))},
		{"each type", amqp.Modified{MessageAnnotations: each}},
		{"each type, deferred", amqp.Modified{MessageAnnotations: each, UndeliverableHere: true}},
		{"each type alone", nil},
		{"a symbol for a key", amqp.Modified{MessageAnnotations: amqp.Map{{Key: amqp.Symbol("k"), Value: "a"}, {Key: "l", Value: "b"}}}},
	} {
		if c.state != nil {
			fmt.Fprintf(&out, "%s: %x\n", c.name, storedBy(t, c.state, 0, 10))
			continue
		}
		for _, p := range each {
			fmt.Fprintf(&out, "%T alone: %x\n", p.Value, storedBy(t, amqp.Modified{MessageAnnotations: amqp.Map{p}}, 0, 10))
		}
	}
	return out.String()
}

// cutChanges are those of dead-letterings that are cut to what there is room for beside the message's header, for each room.
func cutChanges(t *testing.T) string {
	var out strings.Builder
	number := amqp.Pair{Key: "n", Value: int32(5)}
	long, wide := strings.Repeat("x", 600), strings.Repeat("ä€🚌", 70)
	several := amqp.Rejected{Error: &amqp.Error{Info: amqp.Map{number, {Key: "DeadLetterErrorDescription", Value: long}, {Key: "DeadLetterReason", Value: wide},
		{Key: "DeadLetterErrorDescription", Value: "again"}, {Key: "other", Value: long[:300]}}}}
	for _, c := range []struct {
		name  string
		state amqp.DeliveryState
	}{
		{"a description", told("why", long)}, {"a reason", told(long, "because")}, {"characters", told(wide, wide)}, {"a symbol", told("why", amqp.Symbol(long))},
		{"a number", told(long, int64(1))}, {"several", several}, {"none that can be cut", amqp.Rejected{Error: &amqp.Error{Info: amqp.Map{{Key: "a", Value: long}}}}},
		{"a small one", told("why", "because")},
	} {
		all := sha256.New()
		for room := range 2000 {
			stored := storedBy(t, c.state, 64<<10-room, 10)
			fmt.Fprintf(all, "%d %x\n", room, stored)
			if room == 80 || room == 330 || room == 400 {
				fmt.Fprintf(&out, "%s, cut to %d: %x\n", c.name, room, stored)
			}
		}
		fmt.Fprintf(&out, "%s, cut to each room: %x\n", c.name, all.Sum(nil))
	}
	return out.String()
}

// brokersChanges are those of the broker's own dead-letterings.
func brokersChanges(t *testing.T) string {
	var out strings.Builder
	all := sha256.New()
	for room := range 300 {
		stored := storedBy(t, amqp.Modified{}, 64<<10-room, 1)
		fmt.Fprintf(all, "%d %x\n", room, stored)
		if room == 299 {
			fmt.Fprintf(&out, "delivered too often: %x\n", stored)
		}
	}
	fmt.Fprintf(&out, "delivered too often, cut to each room: %x\n", all.Sum(nil))
	fmt.Fprintf(&out, "delivered too often, with changes: %x\n", storedBy(t, amqp.Modified{MessageAnnotations: amqp.Map{{Key: "a", Value: "b"}}}, 0, 1))
	return out.String()
}

// storedBy is the property changes in the events of a settlement of the first message of a queue whose deliveries may fail so often.
func storedBy(t *testing.T, state amqp.DeliveryState, header, deliveries int) []byte {
	t.Helper()
	p := engine.NewPartition(0, 1, index.New())
	e := &engine.Entity{ID: 1, Kind: event.Queue, Path: "q", Properties: engine.DefaultProperties(event.Queue), Hosts: []engine.PartitionID{0}}
	e.Properties.MaxDeliveryCount = uint32(deliveries)
	p.Configure(e)
	slice, token := event.Slice{Entity: 1}, event.LockToken{1}
	decided(t, p, &engine.Send{Slice: slice, Messages: []engine.Message{{ID: []byte("a"), Body: []byte("x")}}})
	decided(t, p, &engine.Receive{Slice: slice, Token: token})
	cmd := settle(t, state)
	cmd.Slice, cmd.Token, cmd.Header = slice, token, header
	return decided(t, p, cmd)
}

// decided has a partition decide and apply a command, and returns the property changes in its events, one after the other.
func decided(t *testing.T, p *engine.Partition, cmd engine.Command) (stored []byte) {
	t.Helper()
	out := p.Decide(1_000_000, cmd)
	if out.Reply.Err != nil {
		t.Fatal(out.Reply.Err)
	}
	for _, ev := range out.Events {
		switch ev := ev.(type) {
		case *event.MessageAbandoned:
			stored = append(stored, ev.Changes.Data...)
		case *event.MessageDeferred:
			stored = append(stored, ev.Changes.Data...)
		case *event.MessageDeadLettered:
			stored = append(stored, ev.Changes.Data...)
		case *event.MessagePublished:
			for i := range ev.Copies {
				stored = append(stored, ev.Copies[i].Changes.Data...)
			}
		}
	}
	event.AppendRecord(nil, sums{}, 1_000_000, out.Events)
	for _, ev := range out.Events {
		p.Apply(1_000_000, ev)
	}
	return stored
}

// sums is a frame that keeps nothing.
type sums struct{}

func (sums) Base() event.Position { return 0 }

func (sums) AppendBlob(head, _ []byte) (event.Position, uint32) { return 1, event.Sum(head) }

// ruleChanges are those that actions of rules make, with what the broker adds.
func ruleChanges(t *testing.T) string {
	see := &filter.Message{User: []event.Property{
		{Name: "Color", Value: event.Value{Type: event.String, Text: "blue"}}, {Name: "n", Value: event.Value{Type: event.Int, Bits: 1}},
		{Name: "blob", Value: event.Value{Type: filter.Opaque}}, {Name: "id", Value: event.Value{Type: event.UUID, Text: "0123456789abcdef"}},
		{Name: "big", Value: event.Value{Type: event.Decimal, Text: "18446744073709551615"}}, {Name: "at", Value: event.InstantOf(1000)},
		{Name: "span", Value: event.Value{Type: event.Span, Bits: math.MaxUint64 - 4}}, {Name: "off", Value: event.Value{Type: event.Bool}},
	}}
	see.System[filter.TimeToLive] = event.Value{Type: event.Span, Bits: uint64(5 * time.Second / event.Tick)}
	var out strings.Builder
	for _, action := range []string{
		"SET color = 'red'", "REMOVE COLOR", "SET n = n + 1; SET n = n * 5000000000", "SET a = 1.5; SET b = 2e3; SET c = -19.99; SET d = @decimal",
		"SET a = blob; SET b = id; SET c = big; SET d = at; SET e = span; SET f = off; SET g = newid()", "SET a = TRUE; SET b = 5; SET c = @none",
		"SET long = @long; SET longer = @longer", "SET sys.Label = 'l'; SET sys.SessionId = 's'; REMOVE sys.To; SET sys.TimeToLive = sys.TimeToLive; SET sys.ScheduledEnqueueTimeUtc = at",
		"SET RuleName = 'mine'; REMOVE absent; SET new = 1; REMOVE new", "SET a = missing", "SET wide = 'größe'",
	} {
		for _, sessions := range []bool{false, true} {
			fmt.Fprintf(&out, "%s, sessions %t: %x\n", action, sessions, changedBy(t, action, sessions, see))
		}
	}
	return out.String()
}

// changedBy is the property changes in a publishing to a subscription with a rule of that action.
func changedBy(t *testing.T, action string, sessions bool, see *filter.Message) []byte {
	t.Helper()
	p := engine.NewPartition(0, 1, index.New())
	topic := &engine.Entity{ID: 1, Kind: event.Topic, Path: "t", Properties: engine.DefaultProperties(event.Topic), Hosts: []engine.PartitionID{0}}
	sub := &engine.Entity{ID: 2, Kind: event.Subscription, Path: "t/Subscriptions/s", Topic: 1, Properties: engine.DefaultProperties(event.Subscription), Hosts: topic.Hosts}
	sub.Properties.RequiresSession = sessions
	p.Configure(topic)
	p.Configure(sub)
	text := func(n int) event.Value { return event.Value{Type: event.String, Text: strings.Repeat("y", n)} }
	rule := event.Rule{Name: "r", Filter: event.Filter{Kind: event.TrueFilter}, Action: event.Action{Text: action, Parameters: []event.Property{
		{Name: "@decimal", Value: event.Value{Type: event.Decimal, Text: strings.Repeat("9", 34)}}, {Name: "@none"},
		{Name: "@long", Value: text(255)}, {Name: "@longer", Value: text(256)},
	}}}
	if err := p.ConfigureRules(sub, []event.Rule{rule}); err != nil {
		t.Fatal(err)
	}
	seen := *see
	p.DrawIDs(func() [16]byte { return [16]byte{7} })
	return decided(t, p, &engine.Send{Slice: event.Slice{Entity: 1},
		Messages: []engine.Message{{ID: []byte("a"), Body: []byte("x"), Properties: &seen}}})
}

// settle is the command of an outcome.
func settle(t *testing.T, state amqp.DeliveryState) *engine.Settle {
	t.Helper()
	w, e := SettlementOf(state)
	if e != nil {
		t.Fatal(e.Description)
	}
	return &engine.Settle{Outcome: w.Outcome, Changes: w.Changes, Reason: w.Reason, Description: w.Description}
}
