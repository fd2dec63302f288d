package loop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

var (
	portSeeds = flag.Int("ports", 2000, "seeds of TestPorts")
	portSeed  = flag.Uint64("ports.seed", 0, "the one seed of TestPorts to run; with -v its trace is printed")
)

// Receiver links with ports in several loops, which run in an order that a seed decides, one step
// of the shared state at a time: never more deliveries than credit, no message left where there is
// credit for it, each drain ends once and leaves nothing, one session for each link that waits for
// one, each request answered once, and nothing locked when all links are gone.
func TestPorts(t *testing.T) {
	t.Parallel()
	if *portSeed != 0 {
		w, bad := runPorts(t, *portSeed)
		if t.Log(strings.Join(w.trace, "\n")); bad != "" {
			t.Errorf(`%+v, want ""`, bad)
		}
		return
	}
	seeds := *portSeeds
	if testing.Short() {
		seeds /= 10
	}
	var all portStats
	for seed := range uint64(seeds) {
		w, bad := runPorts(t, seed+1)
		if bad != "" {
			t.Fatalf("seed %d: %s\n\treplay: go test ./engine/loop -run TestPorts -ports.seed %[1]d -v", seed+1, bad)
		}
		all.add(w.stats)
	}
	t.Logf("%d seeds: %+v", seeds, all)
	all.met(t)
}

// portStats counts what the seeds have exercised.
type portStats struct {
	deliveries, late, drains, superseded, reopened, grants, waitsOver, lost, tooMany, evicted int
}

func (s *portStats) add(o portStats) {
	s.deliveries += o.deliveries
	s.late += o.late
	s.drains += o.drains
	s.superseded += o.superseded
	s.reopened += o.reopened
	s.grants += o.grants
	s.waitsOver += o.waitsOver
	s.lost += o.lost
	s.tooMany += o.tooMany
	s.evicted += o.evicted
}

// met fails if the seeds never exercised what they are meant to.
func (s *portStats) met(t *testing.T) {
	if min(s.deliveries, s.late, s.drains, s.superseded, s.reopened, s.grants, s.waitsOver, s.lost, s.tooMany, s.evicted) == 0 {
		t.Errorf("something was never met: %+v", *s)
	}
}

// ports is a queue whose slices are spread over several loops, and a client with some links to it.
type ports struct {
	rng      *rand.Rand
	now      event.Time
	entity   *engine.Entity
	sessions int // session ids; 0: the queue has none
	limit    int // of receivers; 0: many
	store    log.Store
	members  []*portMember
	current  *portMember // whose coroutine runs
	links    []*portLink // that are not gone
	gone     []*portLink
	tag      uint64
	sent     int
	done     int // messages completed
	trace    []string
	stats    portStats
	bad      string // the first violation
}

// portMember is a loop, and the requests on their way to it. Its steps alternate with those of
// others.
type portMember struct {
	loop   *Loop
	writer log.ManualWriter
	inbox  []engine.Request
	next   func() (struct{}, bool) // nil: it does nothing
	stop   func()
	yield  func(struct{}) bool
}

// portLink is a link as the client knows it.
type portLink struct {
	r         *engine.Receiver
	any       bool
	answers   int // to the attach
	refused   bool
	grant     *engine.SessionGrant
	detached  bool
	farewells int // answers to the detach
	hand      []*engine.Delivery
	seen      creditState

	// since the last time when no loop had anything to do
	base    uint32   // deliveries, and credit given up, before that
	limit   uint32   // of the last flow
	limits  []uint32 // of the flows
	drains  int      // flows that drain
	last    bool     // the last one drains
	got     uint32
	drained int
	there   int // deliverable messages when the one drain was requested; -1: unknown
}

func runPorts(t *testing.T, seed uint64) (*ports, string) {
	w := &ports{rng: rand.New(rand.NewPCG(seed, 1)), now: event.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	if err := w.open(t); err != nil {
		t.Fatal(err)
	}
	for range 3 + w.rng.IntN(5) {
		for range 20 + w.rng.IntN(80) {
			w.act()
		}
		if w.rest(); w.bad != "" {
			break
		}
		w.check()
		if w.bad != "" {
			break
		}
	}
	if w.bad == "" {
		w.finish()
	}
	for _, m := range w.members {
		if m.next != nil {
			m.stop()
		}
		if err := m.writer.Close(); err != nil && w.bad == "" {
			t.Fatalf("%v; want no error unless something went wrong before", err)
		}
	}
	if err := w.store.Close(); err != nil && w.bad == "" {
		t.Fatalf("%v; want no error unless something went wrong before", err)
	}
	return w, w.bad
}

func (w *ports) open(t *testing.T) (err error) {
	loops := 2 + w.rng.IntN(3)
	w.store, err = log.Open(t.Context(), "/data", log.Options{FS: faultfs.New(), Partitions: loops, Manual: true, NamespaceID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"})
	if err != nil {
		return err
	}
	w.entity = &engine.Entity{ID: 7, Kind: event.Queue, Path: "orders", Properties: testQueue()}
	w.entity.Properties.MaxDeliveryCount = 1 << 20
	if w.rng.IntN(3) == 0 {
		w.sessions = 1 + w.rng.IntN(6)
		w.entity.Properties.RequiresSession = true
	}
	if w.rng.IntN(4) == 0 {
		w.limit = 1 + w.rng.IntN(3)
	}
	for i := range max(loops, 1+w.rng.IntN(8)) {
		w.entity.Hosts = append(w.entity.Hosts, engine.PartitionID((i+int(w.entity.ID))%loops))
	}
	for i := range loops {
		plog, err := w.store.Open(context.Background(), log.PartitionID(i))
		if err != nil {
			return err
		}
		writer, err := plog.Lead(context.Background())
		if err != nil {
			return err
		}
		m := &portMember{writer: writer.(log.ManualWriter)}
		m.loop = New(engine.NewPartition(engine.PartitionID(i), loops, index.New()), plog, writer, Options{
			Clock: func() event.Time { return w.now }, Tokens: w.token, Logger: slog.New(slog.DiscardHandler), CheckpointBytes: -1, Inline: true,
			MaxReceivers: w.limit})
		m.loop.configure(&configureCommand{entity: w.entity})
		w.members = append(w.members, m)
	}
	return nil
}

func (w *ports) token() (t event.LockToken) {
	for i := range t {
		t[i] = byte(w.rng.Uint32())
	}
	return t
}

func (w *ports) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *ports) broken(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
		w.note("%s", w.bad)
	}
}

func (w *ports) chance(percent int) bool { return w.rng.IntN(100) < percent }

// act lets the client make a request, or runs a loop.
func (w *ports) act() {
	if w.chance(30) {
		w.ask()
		return
	}
	m := w.members[w.rng.IntN(len(w.members))]
	switch n := w.rng.IntN(10); {
	case m.next != nil:
		w.resume(m)
	case n < 6:
		k := w.rng.IntN(len(m.inbox) + 1)
		w.turn(m, k)
	case n < 8:
		m.writer.Work()
	default:
		w.run(m, m.loop.Committed)
	}
}

// turn makes a loop take that many requests.
func (w *ports) turn(m *portMember, n int) {
	batch := slices.Clone(m.inbox[:n])
	m.inbox = slices.Delete(m.inbox, 0, n)
	w.run(m, func() { m.loop.Turn(batch) })
}

// run makes a loop do something, up to the next step of the shared state.
func (w *ports) run(m *portMember, do func()) {
	m.next, m.stop = iter.Pull(func(yield func(struct{}) bool) {
		m.yield = yield
		do()
	})
	w.resume(m)
}

func (w *ports) resume(m *portMember) {
	w.current = m
	_, more := m.next()
	if w.current = nil; !more {
		m.stop()
		m.next = nil
	}
}

// step is called before a port reads the shared state.
func (w *ports) step(l *portLink) {
	s := linkOf(l.r).credit.state()
	if s.flows == l.seen.flows && s.owing > l.seen.owing {
		w.stats.reopened++
	}
	l.seen = s
	if m := w.current; m != nil {
		m.yield(struct{}{})
	}
}

// rest runs the loops until none has anything to do.
func (w *ports) rest() {
	for range 10_000 {
		busy := w.members[:0:0]
		for _, m := range w.members {
			at := m.loop.NextDeadline()
			if m.next != nil || len(m.inbox) > 0 || m.loop.unfinished() || m.loop.Busy() || at != 0 && at <= w.now {
				busy = append(busy, m)
			}
		}
		if len(busy) == 0 {
			return
		}
		m := busy[w.rng.IntN(len(busy))]
		at := m.loop.NextDeadline()
		switch {
		case m.next != nil:
			w.resume(m)
		case len(m.inbox) > 0 || m.loop.unfinished() || at != 0 && at <= w.now:
			w.turn(m, w.rng.IntN(len(m.inbox)+1))
			m.writer.Work()
		default:
			m.writer.Work()
			w.run(m, m.loop.Committed)
		}
		if err := m.loop.Err(); err != nil {
			w.broken("%v", err)
			return
		}
	}
	w.broken("the loops do not come to rest")
}

// submit adds a request to the inboxes of hosts.
func (w *ports) submit(cmd engine.Command, sink engine.Sink, tag uint64, hosts ...engine.PartitionID) {
	for _, h := range hosts {
		m := w.members[h]
		m.inbox = append(m.inbox, engine.Request{Command: cmd, Sink: sink, Tag: tag})
	}
}

// ask makes the client make a request.
func (w *ports) ask() {
	n := w.rng.IntN(100)
	if len(w.links) == 0 || n < 4 && len(w.links) < 3 || n < 10 && w.sessions > 0 && len(w.links) < 6 {
		w.attach()
		return
	}
	l := w.links[w.rng.IntN(len(w.links))]
	switch {
	case n < 40:
		w.send()
	case n < 65:
		w.flow(l)
	case n < 90:
		w.settle(l)
	case n < 94:
		w.detach(l)
	case n < 97:
		w.now += event.Time(w.rng.IntN(3000))
	}
}

func (w *ports) send() {
	partition := w.rng.IntN(len(w.entity.Hosts))
	m := engine.Message{ID: []byte("m"), Body: []byte("m")}
	if w.sessions > 0 {
		n := w.rng.IntN(w.sessions)
		partition = n % len(w.entity.Hosts)
		m.SessionID, m.HasSession = []byte(fmt.Sprint(n)), true
	}
	w.sent++
	w.note("send to %d", partition)
	w.submit(&engine.Send{Slice: event.Slice{Entity: w.entity.ID, Partition: uint8(partition)}, Messages: []engine.Message{m}}, nil, 0, w.entity.Hosts[partition])
}

func (w *ports) attach() {
	w.tag++
	l := &portLink{r: &engine.Receiver{Entity: w.entity, Sink: w, Tag: w.tag}, there: -1}
	if w.sessions > 0 {
		l.any = w.chance(80)
		l.r.Session = &engine.SessionRequest{Any: l.any, Wait: time.Duration(w.rng.IntN(20)) * time.Second}
		if !l.any {
			n := w.rng.IntN(w.sessions)
			l.r.Session.ID = []byte(fmt.Sprint(n))
			l.r.Slice = event.Slice{Entity: w.entity.ID, Partition: uint8(n % len(w.entity.Hosts))}
		}
	}
	linkOf(l.r).step = func() { w.step(l) }
	w.links = append(w.links, l)
	w.note("attach %d: %+v", l.r.Tag, l.r.Session)
	w.submit(&engine.Attach{Receiver: l.r}, w, l.r.Tag, l.r.Hosts()...)
}

func (w *ports) flow(l *portLink) {
	if l.r.Session != nil && l.grant == nil {
		return // not before it is attached
	}
	l.limit, l.last = l.base+l.got+uint32(w.rng.IntN(6)), w.chance(30)
	if l.last { // a drain of less than was delivered sets the count back
		l.limit = l.base + uint32(max(l.most(), int32(l.limit-l.base)))
	}
	l.limits = append(l.limits, l.limit)
	if l.there = -1; l.last {
		if l.drains++; len(l.limits) == 1 && len(w.links) == 1 && w.sessions == 0 {
			l.there = w.deliverable()
		}
	}
	w.note("flow of %d: %d, %v", l.r.Tag, l.limit, l.last)
	w.submit(&engine.Flow{Receiver: l.r, Limit: l.limit, Drain: l.last}, w, l.r.Tag, l.r.Hosts()...)
}

// deliverable returns how many messages the loops can deliver now.
func (w *ports) deliverable() (n int) {
	for i, h := range w.entity.Hosts {
		n += w.members[h].loop.part.Index().Count(event.Slice{Entity: w.entity.ID, Partition: uint8(i)}, event.Main, index.Active)
	}
	return n
}

// settle ends the lock of a message that the client has.
func (w *ports) settle(l *portLink) {
	if len(l.hand) == 0 {
		return
	}
	i := w.rng.IntN(len(l.hand))
	d := l.hand[i]
	l.hand = slices.Delete(l.hand, i, i+1)
	outcome := engine.Complete
	if w.chance(50) {
		outcome = engine.Abandon
		w.submit(&engine.StepBack{Receiver: l.r}, nil, 0, l.r.Hosts()...)
	}
	w.end(d, outcome)
}

func (w *ports) end(d *engine.Delivery, outcome engine.SettleOutcome) {
	at := d.Token.Partition()
	var sink engine.Sink
	if outcome == engine.Complete {
		sink = portSettled{w}
	}
	w.submit(&engine.Settle{Entity: w.entity, Slice: event.Slice{Entity: w.entity.ID, Partition: at}, Token: d.Token, Outcome: outcome}, sink, 0, w.entity.Hosts[at])
}

// portSettled counts completed messages.
type portSettled struct{ w *ports }

func (s portSettled) Post(rs []engine.Reply) {
	for _, r := range rs {
		if r.Err == nil {
			s.w.done++
		}
	}
}

func (w *ports) detach(l *portLink) {
	w.note("detach %d", l.r.Tag)
	l.detached = true
	cmd := &engine.Detach{Receiver: l.r}
	if w.sessions == 0 {
		for i := 0; i < len(l.hand); i++ {
			if w.chance(50) { // it never reached the wire
				cmd.Unsent = append(cmd.Unsent, l.hand[i].Token)
				l.hand = slices.Delete(l.hand, i, i+1)
				i--
			}
		}
	} else {
		l.hand = nil // their locks end with the session
	}
	w.links = slices.DeleteFunc(w.links, func(o *portLink) bool { return o == l })
	w.gone = append(w.gone, l)
	w.submit(cmd, w, 1<<32|l.r.Tag, l.r.Hosts()...)
}

// Post implements [engine.Sink].
func (w *ports) Post(rs []engine.Reply) {
	for i := range rs {
		w.hear(&rs[i])
	}
}

func (w *ports) hear(r *engine.Reply) {
	all := slices.Concat(w.links, w.gone)
	l := all[slices.IndexFunc(all, func(l *portLink) bool { return l.r.Tag == r.Tag&0xffffffff })]
	w.note("heard %d: kind %d, %v, %+v", r.Tag, r.Kind, r.Err, r.Answer)
	switch {
	case r.Tag>>32 != 0:
		if l.farewells++; l.farewells > 1 {
			w.broken("the detach of %d is answered twice", l.r.Tag)
		}
	case l.farewells > 0:
		w.broken("%d is told something after its end: kind %d", l.r.Tag, r.Kind)
	case r.Kind == engine.ReplyDone:
		if l.answers++; l.answers > 1 {
			w.broken("the attach of %d is answered twice, now with %v, %v", l.r.Tag, r.Err, r.Answer)
		}
		w.attached(l, r)
	case r.Kind == engine.ReplyDrained:
		w.drained(l)
	case r.Kind == engine.ReplyDelivery && l.detached:
		w.stats.late++
		w.end(r.Delivery(), engine.Release)
	case r.Kind == engine.ReplyDelivery:
		if l.got++; len(l.limits) == 1 && l.drained > 0 {
			w.broken("%d gets a message after its drain", l.r.Tag)
		}
		w.stats.deliveries++
		l.hand = append(l.hand, r.Delivery())
		w.within(l)
	case r.Kind == engine.ReplyEnded && w.limit > 0 && l.r.Session != nil:
		w.stats.evicted++ // another port had given it a session
		if !l.detached {
			w.detach(l)
		}
	default:
		w.broken("%d hears kind %d, %v", l.r.Tag, r.Kind, r.Err)
	}
}

// attached handles the answer to an attach.
func (w *ports) attached(l *portLink, r *engine.Reply) {
	l.refused, l.grant = r.Err != nil, r.SessionGrant()
	var e *engine.Error
	switch {
	case r.Err == nil:
		if l.grant != nil {
			w.stats.grants++
		}
		if (l.r.Session != nil) != (l.grant != nil) {
			w.broken("%d is attached with %v", l.r.Tag, l.grant)
		}
		return
	case !errors.As(r.Err, &e):
		w.broken("the attach of %d: %v", l.r.Tag, r.Err)
	case e.Code == engine.QuotaExceeded && w.limit > 0:
		w.stats.tooMany++
	case e.Code == engine.Timeout && l.any:
		w.stats.waitsOver++
		w.allHaveLooked(l)
	case e.Code == engine.SessionCannotBeLocked && !l.any:
		w.stats.lost++
	default:
		w.broken("the attach of %d: %v", l.r.Tag, r.Err)
	}
	if !l.detached {
		w.detach(l)
	}
}

// allHaveLooked checks that, when a link is told that there is no session, every loop was told that
// it wants one (semantics.md 10.4).
func (w *ports) allHaveLooked(l *portLink) {
	for i, m := range w.members {
		for _, req := range m.inbox {
			if attach, ok := req.Command.(*engine.Attach); ok && attach.Receiver == l.r && !l.detached {
				w.broken("%d is told that there is no session, and loop %d has not looked", l.r.Tag, i)
			}
		}
	}
}

// most returns the highest credit that a link had since no loop had anything to do.
func (l *portLink) most() (most int32) {
	for _, limit := range l.limits {
		most = max(most, int32(limit-l.base))
	}
	return most
}

// within checks that no delivery is over the credit.
func (w *ports) within(l *portLink) {
	if int32(l.got) > l.most() {
		w.broken("%d has %d deliveries for a credit of %d", l.r.Tag, l.got, l.most())
	}
}

func (w *ports) drained(l *portLink) {
	w.stats.drains++
	if l.drained++; l.drained > l.drains {
		w.broken("%d has asked for %d drains and hears of %d", l.r.Tag, l.drains, l.drained)
	}
	if l.there >= 0 && len(l.limits) == 1 && !l.detached && l.got < uint32(min(l.there, int(l.most()))) && len(w.links) == 1 {
		w.broken("%d is drained with %d deliveries, there were %d for a credit of %d", l.r.Tag, l.got, l.there, l.most())
	}
}
