package servicebus

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const (
	day = 24 * time.Hour
	ms  = time.Millisecond
)

// mortal is a message with a time to live of some kind, as a client sends it.
type mortal struct {
	name               string
	header, properties string        // as .NET sends them, in hexadecimal
	own                time.Duration // as the broker reads it; 0: none
	never              bool          // its time of expiry says that it has none
}

// mortals are the messages of the recordings of .NET's SDK, and combinations of the three fields
// that no SDK sends by itself.
var mortals = []mortal{
	{"unset", "", "005373c0100da1016d404040404040404040404040", 0, false},
	{"5 s", "005370c00a05404070000013884040", "005373c0200da1016d4040404040404083000001a21b8ef9ad83000001a21b8ee625404040", 5 * time.Second, false},
	{"60 days", "005370c00a05404070ffffffff4040", "005373c0200da1016d4040404040404083000001a3508c763583000001a21b8ee635404040", 60 * day, false},
	{"TimeSpan.MaxValue", "005370c00a05404070ffffffff4040", "005373c0200da1016d40404040404040830000e677cc8ba30083000001a21b8ee641404040", 0, true},
	{"365000 days", "005370c00a05404070ffffffff4040", "005373c0200da1016d404040404040408300001e50a7a2c65283000001a21b8ee652404040", 0, true},
	{"2^32-1 ms", "005370c00a05404070ffffffff4040", "005373c0200da1016d4040404040404083000001a31b8ee65b83000001a21b8ee65c404040", math.MaxUint32 * ms, false},
	{"times alone", "", "005373c0200da1016d4040404040404083000001a21b8fd8b483000001a21b8eee54404040", 0, false},
	{"times that are over", "", "005373c0200da1016d4040404040404083000001a21b8eea8083000001a21b8ee698404040", 0, false},
	{"expiry alone", "", "005373c0180da1016d4040404040404083000001a21b8fd8bd40404040", 0, false},
	{"creation alone", "", "005373c0180da1016d4040404040404040830000019ac3ddc263404040", 0, false},
	{"expiry before creation", "", "005373c0200da1016d4040404040404083000001a21b8ee69883000001a21b8eea80404040", 0, false},
	{"ttl 0 and times", "005370c00a05404070000000004040", "005373c0200da1016d4040404040404083000001a21b8fd8b483000001a21b8eee54404040", 0, false},
	{"ttl 0 and expiry before creation", "005370c00a05404070000000004040", "005373c0200da1016d4040404040404083000001a21b8ee69883000001a21b8eea80404040", 0, false},
	{"5 s and another expiry", "005370c00a05404070000013884040", "005373c0200da1016d40404040404040830000e677cc8ba30083000001a21b8ee641404040", 5 * time.Second, false},
	{"5 s and expiry before creation", "005370c00a05404070000013884040", "005373c0200da1016d4040404040404083000001a21b8ee69883000001a21b8eea80404040", 5 * time.Second, false},
	{"2^32-1 ms and no times", "005370c00a05404070ffffffff4040", "005373c0100da1016d404040404040404040404040", math.MaxUint32 * ms, false},
	{"2^32-1 ms and creation", "005370c00a05404070ffffffff4040", "005373c0180da1016d4040404040404040830000019ac3ddc263404040", math.MaxUint32 * ms, false},
}

// encoded returns the message, with annotations where there are some.
func (m *mortal) encoded(annotations amqp.Map) []byte {
	header, _ := hex.DecodeString(m.header)
	if annotations != nil {
		header = amqp.AppendSection(header, amqp.SectionMessageAnnotations, annotations)
	}
	return amqp.AppendData(append(header, m.sent()...), []byte("x"))
}

// sent returns the properties as they were sent.
func (m *mortal) sent() []byte {
	b, _ := hex.DecodeString(m.properties)
	return b
}

// sdk returns the time to live that an SDK shows: Go, JavaScript, Python and Java use the header's,
// and .NET the difference of the two times if the message has both. 0 means none.
type sdk struct{ others, dotnet time.Duration }

func shownBySDKs(m *openedMessage) (s sdk) {
	s.others = time.Duration(m.header.TTL.Value) * ms
	s.dotnet = s.others
	if p := m.properties; p.AbsoluteExpiryTime.Set && p.CreationTime.Set {
		s.dotnet = time.Duration(p.AbsoluteExpiryTime.Value-p.CreationTime.Value) * ms
	}
	return s
}

// shows wants a limit shown in all three fields, or, where it is 0, no ttl, and the times as they
// were sent.
func (m *mortal) shows(t *testing.T, where string, got *openedMessage, limit time.Duration) {
	t.Helper()
	at, _ := got.annotations.Get(keyEnqueuedTime)
	enqueued := at.(amqp.Timestamp)
	want, _ := amqp.DecodeProperties(m.sent())
	says := sdk{}
	switch {
	case limit != 0:
		says = sdk{min(limit, math.MaxUint32*ms), limit}
		want.CreationTime, want.AbsoluteExpiryTime = amqp.Some(enqueued), amqp.Some(enqueued+amqp.Timestamp(limit/ms))
	case m.never:
		want.AbsoluteExpiryTime = amqp.Opt[amqp.Timestamp]{}
	case want.CreationTime.Set && want.AbsoluteExpiryTime.Set:
		says.dotnet = time.Duration(want.AbsoluteExpiryTime.Value-want.CreationTime.Value) * ms
	}
	p := got.properties
	if got.header.TTL.Set != (limit != 0) || p.CreationTime != want.CreationTime || p.AbsoluteExpiryTime != want.AbsoluteExpiryTime || shownBySDKs(got) != says {
		t.Errorf("%s, %s: ttl %+v, created %+v, expires %+v, want %v, %+v, %+v; SDKs show %v, want %v",
			m.name, where, got.header.TTL, p.CreationTime, p.AbsoluteExpiryTime, limit, want.CreationTime, want.AbsoluteExpiryTime, shownBySDKs(got), says)
	}
}

// SM-393, SM-394, SM-395, WP-246, WP-247: what becomes of each combination of ttl, creation time
// and expiry time, on each way into an entity, and what SDKs show of it. A time to live is worked
// out from the times only where ttl is 4294967295.
func TestDotnetTimeToLive(t *testing.T) {
	for _, ceiling := range []time.Duration{event.Forever, time.Hour, 100 * day} {
		for _, way := range []string{"sent", "batch", "topic", "forwarded", "through another", "scheduled", "scheduled at a topic", "scheduled by request"} {
			t.Run(fmt.Sprintf("%s, ceiling %v", way, ceiling), func(t *testing.T) {
				t.Parallel()
				bubble(t, nil, func(b *bench) { mortalsOn(b, way, ceiling) })
			})
		}
	}
}

func mortalsOn(b *bench, way string, ceiling time.Duration) {
	limited := func(p *event.Properties) { p.DefaultMessageTimeToLive = ceiling }
	b.queue("limited", limited)
	b.queue("source", func(p *event.Properties) { p.ForwardTo = "limited" })
	b.topic("t", limited)
	b.subscription("t", "s", nil)
	entity, waits := "limited", "limited"
	p := b.root()
	later := time.Now().Add(time.Minute)
	annotations := amqp.Map{{Key: amqp.Symbol(keyScheduled), Value: timestampOf(later)}}
	var all, scheduled [][]byte
	for _, m := range mortals {
		all, scheduled = append(all, m.encoded(nil)), append(scheduled, m.encoded(annotations))
	}
	switch way {
	case "sent":
		b.put("limited", all...)
	case "batch":
		p.attachSender(1, "limited")
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, batchOf(all...))
		if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
			b.Fatalf("%+v", d)
		}
	case "topic":
		entity = "t/Subscriptions/s"
		b.put("t", all...)
	case "forwarded":
		b.put("source", all...)
	case "through another":
		p.attachVia(1, "q", "limited")
		expect[*amqp.Attach](p)
		expect[*amqp.Flow](p)
		for i, m := range all {
			p.send(1, uint32(i), m)
		}
	case "scheduled":
		b.put("limited", scheduled...)
	case "scheduled at a topic":
		entity, waits = "t/Subscriptions/s", "t"
		b.put("t", scheduled...)
	case "scheduled by request":
		b.node("limited").managedWith(200, "", "schedule-message", scheduleBody(scheduled...))
	}
	if strings.HasPrefix(way, "scheduled") {
		for i, got := range b.node(waits).peekAll() { // its time has not begun
			mortals[i].shows(b.T, way+", not yet active", &got, mortals[i].own)
		}
		time.Sleep(time.Minute)
	}
	time.Sleep(time.Second)
	peeked := b.node(entity).peekAll()
	r := b.root()
	r.attachReceiver(2, entity, amqp.SenderUnsettled)
	r.credit(2, 0, 100, false)
	for i := range mortals {
		m := &mortals[i]
		own := min(m.own, ceiling)
		if i >= len(peeked) {
			b.Fatalf("%d messages of %d", len(peeked), len(mortals))
		}
		m.shows(b.T, way+", peeked", &peeked[i], own)
		if own == 0 && ceiling != event.Forever {
			own = ceiling
		}
		got := r.receive()
		m.shows(b.T, way+", received", &got, own)
	}
}

// SM-396: a message that could not go on to where it was sent shows the time to live that it was
// sent with.
func TestDotnetTimeToLiveNotBegun(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("off", func(p *event.Properties) { p.Status = event.Disabled })
		p := b.root()
		p.attachVia(1, "q", "off")
		expect[*amqp.Attach](p)
		expect[*amqp.Flow](p)
		for i, m := range mortals {
			p.send(1, uint32(i), m.encoded(nil))
		}
		time.Sleep(time.Second)
		dead := b.node("q/$transfer/$DeadLetterQueue").peekAll()
		if len(dead) != len(mortals) {
			t.Fatalf("%d dead letters", len(dead))
		}
		for i := range mortals {
			mortals[i].shows(t, "dead-lettered", &dead[i], mortals[i].own)
		}
	})
}

// SM-393: where ttl is 4294967295, an expiry time that is not after the creation time is refused.
func TestExpiryBeforeCreation(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		header := amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(uint32(math.MaxUint32))})
		for i, times := range [][2]amqp.Timestamp{{5000, 5000}, {5000, 4000}} {
			m := amqp.AppendProperties(slices.Clone(header), &amqp.Properties{MessageID: "m", CreationTime: amqp.Some(times[0]), AbsoluteExpiryTime: amqp.Some(times[1])})
			p.transfer(1, uint32(i), m)
			p.rejected(uint32(i), amqp.CondArgumentError)
		}
	})
}
