package message

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
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

// The bytes of property changes in events, from the peer's message to the engine's event, in the
// form of docs/log-format.md.
func TestStoredChanges(t *testing.T) {
	t.Parallel()
	const file = "testdata/changes.txt"
	got := settledChanges(t) + cutChanges(t) + brokersChanges(t) + ruleChanges(t)
	if *record {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := lines(t, file)
	for i, line := range strings.Split(got, "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s, line %d:\ngot  %s\nwant %s", file, i+1, line, want[min(i, len(want)-1)])
		}
	}
}

// Messages of logs of format 1 are delivered as before, and as those with the present form are,
// byte by byte, for everything that brokers stored then. Only texts that were cut to fit are a
// little shorter in one of the forms.
func TestChangesOfFormat1(t *testing.T) {
	t.Parallel()
	was, is := lines(t, "testdata/changes-format-1.txt"), lines(t, "testdata/changes.txt")
	if len(was) != len(is) {
		t.Fatalf("%d lines, and %d of format 1", len(is), len(was))
	}
	compared := 0
	for i := range was {
		name, _, _ := strings.Cut(was[i], ": ")
		if now, _, _ := strings.Cut(is[i], ": "); now != name {
			t.Fatalf("line %d is %q, not %q", i+1, now, name)
		}
		if name == "" || strings.HasSuffix(name, "each room") { // a sum
			continue
		}
		old, own := changesIn(t, was[i]), changesIn(t, is[i])
		for _, sent := range [][]byte{fullMessage(), message("a", "b")} {
			want, now := delivered(t, sent, old), delivered(t, sent, own)
			if strings.Contains(name, "cut to") {
				sameButForCuts(t, name, want, now)
			} else if !bytes.Equal(want, now) {
				t.Errorf("%s:\nformat 1 % x\nnow      % x", name, want, now)
			}
		}
		compared++
	}
	if compared < 80 {
		t.Errorf("%d lines compared", compared)
	}
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// changesIn returns the property changes of a line: in hexadecimal, with a space between them;
// those of format 1 have none.
func changesIn(t *testing.T, line string) (all [][]byte) {
	t.Helper()
	_, text, _ := strings.Cut(line, ": ")
	for _, word := range strings.Fields(text) {
		b, err := hex.DecodeString(word)
		if err != nil {
			t.Fatal(err)
		}
		if n := amqp.RawSize(b); n > 0 && n < len(b) {
			all, b = append(all, b[:n]), b[n:]
		}
		all = append(all, b)
	}
	return all
}

// delivered returns the delivery of a message with changes.
func delivered(t *testing.T, stored []byte, changes [][]byte) []byte {
	t.Helper()
	b, err := AppendDelivery(nil, stored, &engine.Delivery{TimeToLive: time.Minute, EnqueuedAt: 100, ExpiresAt: 60_100, Sequence: 7}, changes, View{})
	if err != nil {
		t.Fatalf("%x: %v", changes, err)
	}
	return b
}

// sameButForCuts checks that two messages are equal except for the ends of texts.
func sameButForCuts(t *testing.T, name string, x, y []byte) {
	t.Helper()
	a, b := decoded(t, x).application, decoded(t, y).application
	if len(a) != len(b) {
		t.Fatalf("%s: %+v and %+v", name, a, b)
	}
	for i := range a {
		s, isText := a[i].Value.(string)
		u, _ := b[i].Value.(string)
		const overhead = 14 // bytes by which the forms differ around two texts
		switch {
		case a[i].Key != b[i].Key || !isText && !reflect.DeepEqual(a[i].Value, b[i].Value):
			t.Errorf("%s: %+v and %+v", name, a[i], b[i])
		case isText && (!strings.HasPrefix(s, u) && !strings.HasPrefix(u, s) || len(s)-len(u) > overhead || len(u)-len(s) > overhead):
			t.Errorf("%s: %d bytes %q and %d bytes %q", name, len(s), s, len(u), u)
		}
	}
}

// told is the information of a dead-lettering.
func told(reason, description any) amqp.DeliveryState {
	return amqp.Rejected{Error: &amqp.Error{Info: amqp.Map{{Key: "DeadLetterReason", Value: reason}, {Key: "DeadLetterErrorDescription", Value: description}}}}
}

// settledChanges are changes of settlements that fit without cuts.
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
			fmt.Fprintf(&out, "%s: %s\n", c.name, storedBy(t, c.state, 0, 10))
			continue
		}
		for _, p := range each {
			fmt.Fprintf(&out, "%T alone: %s\n", p.Value, storedBy(t, amqp.Modified{MessageAnnotations: amqp.Map{p}}, 0, 10))
		}
	}
	return out.String()
}

// cutChanges are changes of dead-letterings that are cut to the room left by the message's header,
// for each room.
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
			changes := storedBy(t, c.state, 64<<10-room, 10)
			fmt.Fprintf(all, "%d %s\n", room, changes)
			if room == 80 || room == 330 || room == 400 {
				fmt.Fprintf(&out, "%s, cut to %d: %s\n", c.name, room, changes)
			}
		}
		fmt.Fprintf(&out, "%s, cut to each room: %x\n", c.name, all.Sum(nil))
	}
	return out.String()
}

// brokersChanges are changes of the broker's own dead-letterings.
func brokersChanges(t *testing.T) string {
	var out strings.Builder
	all := sha256.New()
	for room := range 300 {
		changes := storedBy(t, amqp.Modified{}, 64<<10-room, 1)
		fmt.Fprintf(all, "%d %s\n", room, changes)
		if room == 299 {
			fmt.Fprintf(&out, "delivered too often: %s\n", changes)
		}
	}
	fmt.Fprintf(&out, "delivered too often, cut to each room: %x\n", all.Sum(nil))
	fmt.Fprintf(&out, "delivered too often, with changes: %s\n", storedBy(t, amqp.Modified{MessageAnnotations: amqp.Map{{Key: "a", Value: "b"}}}, 0, 1))
	return out.String()
}

// storedBy returns the property changes in the events of a settlement of the first message of a
// queue with that maximum delivery count.
func storedBy(t *testing.T, state amqp.DeliveryState, header, deliveries int) stored {
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

// stored returns the property changes of events, in order.
type stored [][]byte

func (s stored) String() string {
	words := make([]string, len(s))
	for i := range s {
		words[i] = hex.EncodeToString(s[i])
	}
	return strings.Join(words, " ")
}

func (s *stored) add(changes event.Blob) {
	if len(changes.Data) > 0 {
		*s = append(*s, changes.Data)
	}
}

// decided makes a partition decide and apply a command, and returns the property changes in its
// events.
func decided(t *testing.T, p *engine.Partition, cmd engine.Command) (found stored) {
	t.Helper()
	out := p.Decide(1_000_000, cmd)
	if out.Reply.Err != nil {
		t.Fatal(out.Reply.Err)
	}
	for _, ev := range out.Events {
		switch ev := ev.(type) {
		case *event.MessageAbandoned:
			found.add(ev.Changes)
		case *event.MessageDeferred:
			found.add(ev.Changes)
		case *event.MessageDeadLettered:
			found.add(ev.Changes)
		case *event.MessagePublished:
			for i := range ev.Copies {
				found.add(ev.Copies[i].Changes)
			}
		}
	}
	event.AppendRecord(nil, sums{}, 1_000_000, out.Events)
	for _, ev := range out.Events {
		p.Apply(1_000_000, ev)
	}
	return found
}

// sums is a writer that keeps nothing.
type sums struct{}

func (sums) Base() event.Position { return 0 }

func (sums) AppendBlob(head, _ []byte) (event.Position, uint32) { return 1, event.Sum(head) }

// ruleChanges are changes made by actions of rules, with the broker's additions.
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
			fmt.Fprintf(&out, "%s, sessions %t: %s\n", action, sessions, changedBy(t, action, sessions, see))
		}
	}
	return out.String()
}

// changedBy returns the property changes of a message published to a subscription with a rule with
// that action.
func changedBy(t *testing.T, action string, sessions bool, see *filter.Message) stored {
	t.Helper()
	p := engine.NewPartition(0, 1, index.New())
	topic := &engine.Entity{ID: 1, Kind: event.Topic, Path: "t", Properties: engine.DefaultProperties(event.Topic), Hosts: []engine.PartitionID{0}}
	sub := &engine.Entity{ID: 2, Kind: event.Subscription, Path: "t/Subscriptions/s", Topic: 1, Properties: engine.DefaultProperties(event.Subscription), Hosts: topic.Hosts}
	sub.Properties.RequiresSession = sessions
	p.Configure(topic)
	p.Configure(sub)
	text := func(n int) event.Value { return event.Value{Type: event.String, Text: strings.Repeat("y", n)} }
	rule := event.Rule{Name: "r", Filter: event.Filter{Kind: event.TrueFilter}, Action: event.Action{Text: action, Parameters: []event.Property{
		{Name: "@decimal", Value: event.Value{Type: event.Decimal, Text: "79228162514264337593543950335"}}, {Name: "@none"},
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

// settle returns the command of an outcome.
func settle(t *testing.T, state amqp.DeliveryState) *engine.Settle {
	t.Helper()
	w, e := SettlementOf(state)
	if e != nil {
		t.Fatal(e.Description)
	}
	return &engine.Settle{Outcome: w.Outcome, Changes: w.Changes, Reason: w.Reason, Description: w.Description}
}
