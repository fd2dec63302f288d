package sim

import (
	"cmp"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// A receiver of an entity with several partitions has a port in each log that hosts some, and the
// ports share one credit, one drain and one session (docs/decisions/0034). Loops stand still before
// each look at what is shared, where the seed says so, and others go on meanwhile. What a port
// found is noted; from that the shadow says what its loop must do, and what clients know is used to
// check that all ports together give what is due, once.

// port is what a receiver is in one log.
type port struct {
	up     *receiver // that it is a port of; nil: it is none
	here   []*queue  // partitions that it has messages of; none: it is only counted here
	home   bool      // it is counted here
	shared bool      // there are others
	there  bool      // its loop knows it
	flows  uint32    // so far
	before uint32    // limit of the newest
	drain  drain     // of the newest
	last   *ask      // the newest that drains
	saying int       // answers to drains that have not left
	yields int       // turns in which it left credit to others
}

// drain is how far a port has come with a drain.
type drain int

const (
	drainNone drain = iota
	drainOwed
	drainSaid     // its answer is behind its deliveries
	drainAnswered // … and has left
)

// look is what a port found when it looked at what is shared.
type look struct {
	r  *receiver
	is loop.Ports
}

// jointAnswer is how far ports are with what they answer together.
type jointAnswer struct {
	ports, done, said int
	unsure            bool // whether it is answered at all: one of them is gone, or refuses
}

// client is the receiver as its client has it.
func (r *receiver) client() *receiver {
	if r.up != nil {
		return r.up
	}
	return r
}

// from are the partitions that a receiver has messages of in a log.
func (r *receiver) from() []*queue {
	if r.up != nil {
		return r.here
	}
	return []*queue{r.q}
}

// among are those of some partitions that a receiver has messages of.
func (r *receiver) among(some []*queue) (all []*queue) {
	for _, q := range r.from() {
		if slices.Contains(some, q) {
			all = append(all, q)
		}
	}
	return all
}

func byPartition(a, b *queue) int { return cmp.Compare(a.slice.Partition, b.slice.Partition) }

// ofToken is the partition of an entity that a token is of.
func (e *split) ofToken(t model.Token) *queue {
	if at := int(event.LockToken(t).Partition()); at < len(e.parts) {
		return e.parts[at]
	}
	return e.parts[0]
}

// where is the partition that something is about.
func (x *want) where() *queue {
	if x.q != nil {
		return x.q
	}
	return x.ask.q
}

// byReceiver reports whether a request is one of a receiver, for all its ports.
func (a *ask) byReceiver() bool {
	switch a.op {
	case opAttach, opAccept, opFlow, opDetach:
		return true
	}
	return false
}

// unsure: nobody knows whether what was asked of several ports is answered.
func (a *ask) unsure() {
	if a.of != nil {
		a.of.joint.unsure = true
	}
}

// submitJoint puts what is asked of a receiver into the inboxes of all its ports.
func (w *world) submitJoint(a *ask) {
	r := a.rcv
	if a.op == opAttach || a.op == opAccept {
		w.attachPorts(r)
		for _, port := range r.ports {
			if port.q.host.away { // all are, or that of its session
				w.turnedAway(a)
				return
			}
		}
	}
	w.note("ask all", int64(a.op), int64(a.q.n), int64(a.tag), int64(a.sub), int64(len(r.ports)))
	w.hist.asked(a)
	for _, port := range r.ports {
		b := *a
		b.rcv, b.q, b.of = port, port.q, a
		p := port.q.host
		if p.away || p.loop == nil {
			w.turnAway(p, &b)
			continue
		}
		a.joint.ports++
		p.inbox = append(p.inbox, &b)
	}
}

// turnAway is what becomes of a request to a port in a log that does not serve.
func (w *world) turnAway(p *part, a *ask) {
	a.unsure()
	var answer answers
	loop.TurnAway([]engine.Request{{Command: a.cmd, Sink: &answer, Tag: a.tag}}, engine.Refuse(engine.Busy, "away"))
	if len(answer) > 1 {
		w.broken("I2", "%s: request %d is turned away %d times", a.q.path, a.tag, len(answer))
	}
	if len(answer) == 1 && (a.op == opAttach || a.op == opAccept) {
		w.forgetReceiver(a.rcv.client())
	}
}

// attachPorts makes the ports of a receiver, as the rules of [engine.Receiver] have them.
func (w *world) attachPorts(r *receiver) {
	hosts := r.real.Hosts()
	shared := loop.WatchPorts(r.real, func() { w.looked(r) })
	if shared != (len(hosts) > 1) {
		w.broken("I26", "%s: a receiver of %d logs has one port: %v", r.q.path, len(hosts), !shared)
	}
	for i, id := range hosts {
		port := &receiver{tag: r.tag, sub: r.sub, delete: r.delete, real: r.real}
		port.port = portOf(r, i == 0, shared)
		for _, q := range r.q.whole.parts {
			if q.host.id != int(id) {
				continue
			}
			port.q = q.site()
			if r.real.Slice == (event.Slice{}) || r.real.Slice == q.slice {
				port.here = append(port.here, q)
			}
		}
		r.ports = append(r.ports, port)
	}
}

func portOf(r *receiver, home, shared bool) (p port) {
	p.up, p.home, p.shared = r, home, shared
	return p
}

// looked is called before a port looks at what is shared.
func (w *world) looked(r *receiver) {
	p := w.current
	if p == nil {
		return // it is turned away
	}
	if p.pause != nil && w.interleaver.IntN(100) < 35 {
		w.stats.StoodStill++
		p.pause(struct{}{})
	}
	p.looks = append(p.looks, look{r, loop.PortsOf(r.real)})
}

// looks is what a port found when it looked next.
func (s *shadow) looks(r *receiver) loop.Ports {
	p := s.p
	if len(p.looks) == 0 || p.looks[0].r != r.client() {
		s.w.broken("I26", "partition %d: a port of receiver %d must look at what it shares with others, and does not", p.id, r.tag)
	}
	is := p.looks[0].is
	p.looks = p.looks[1:]
	return is
}

// Post implements [engine.Sink], for receivers with several ports.
func (w *world) Post(replies []engine.Reply) {
	w.current.Post(replies)
	for i := range replies {
		at := slices.IndexFunc(w.receivers, func(r *receiver) bool { return r.tag == replies[i].Tag && len(r.ports) > 0 })
		if at < 0 {
			continue
		}
		switch m := &w.receivers[at].mail; replies[i].Kind {
		case engine.ReplyDelivery:
			m.posted++
		case engine.ReplyDrained:
			m.drains = append(m.drains, m.posted)
		}
	}
}

// joined counts what a port has said, or keeps to itself, of what all answer together.
func (w *world) joined(x *want, r *engine.Reply) {
	j := &x.joint.joint
	if j.done++; r != nil {
		j.said++
	}
	if j.said > 1 || j.done == j.ports && j.said == 0 && !j.unsure {
		w.broken("I26", "request %d (%v) has %d answers, of %d ports with %d that are done", x.tag, x.joint.op, j.said, j.ports, j.done)
	}
}

// sharedLimit makes a flow's limit one that clients ask for: a client that drains asks for no less
// than before.
func (w *world) sharedLimit(a *ask) {
	r := a.rcv
	if a.drain && int32(a.limit-r.largest) < 0 {
		a.limit = r.largest
	}
	if int32(a.limit-r.largest) > 0 {
		r.largest = a.limit
	}
	r.newest = a
}

// drained: what was left of the credit is given up.
func (a *ask) drained() {
	if a.of == nil || len(a.of.rcv.mail.drains) == 0 { // or its client has forgotten it
		return
	}
	m := &a.of.rcv.mail
	before := m.drains[0]
	if m.drains = m.drains[1:]; a.of.rcv.newest == a.of {
		a.of.rcv.got, m.early = a.limit, max(0, before-m.read)
	}
}

// withinCredit checks that a delivery is one that its client has given credit for, whatever ports
// do (P19, SM-211).
func (w *world) withinCredit(r *receiver) {
	if len(r.ports) > 0 && int32(r.largest-r.got) < 1 {
		w.broken("P19", "%s: receiver %d gets its delivery %d, for a credit of %d", r.q.path, r.tag, r.got+1, r.largest)
	}
}

// forgetReceiver: a client's receiver has come to its end, and with it all ports.
func (w *world) forgetReceiver(r *receiver) {
	w.receivers = slices.DeleteFunc(w.receivers, func(o *receiver) bool { return o == r })
	if len(r.ports) == 0 || r.leaving {
		return
	}
	w.submit(&ask{op: opDetach, q: r.q, sub: r.sub, tag: w.tag(), rcv: r, cmd: &engine.Detach{Receiver: r.real}})
}

// portsGone: receivers with a port in a log that no longer serves are told so, and leave the
// others.
func (w *world) portsGone(p *part) {
	for _, r := range slices.Clone(w.receivers) {
		if slices.ContainsFunc(r.ports, func(port *receiver) bool { return port.q.host == p }) {
			w.stats.PortsLost++
			w.forgetReceiver(r)
		}
	}
}

// portsBack: receivers without a port in a log that is back leave, and come again.
func (w *world) portsBack(p *part) {
	for _, r := range slices.Clone(w.receivers) {
		if !r.granted && slices.Contains(r.real.Away, engine.PartitionID(p.id)) {
			w.forgetReceiver(r)
		}
	}
}

// turnedAwayIn is what becomes of requests to ports in a log whose loop has ended.
func (w *world) turnedAwayIn(p *part) {
	for _, x := range p.shadow.waiting {
		if x.joint != nil {
			x.joint.joint.unsure = true
		}
	}
	for _, a := range p.inbox {
		if a.of != nil {
			w.turnAway(p, a)
		}
	}
}

// What the shadow of a loop has of credit that is shared.

// served is the receiver whose credit has waited longest; nil: there is none.
func (s *shadow) served(ln *line) *receiver {
	for len(ln.grants) > 0 {
		g := &ln.grants[0]
		if g.rcv.shared && g.credit > 0 {
			left := max(0, s.looks(g.rcv).Left)
			g.credit -= min(g.credit, max(0, ln.queued(g.rcv)-left))
		}
		if g.credit > 0 {
			return g.rcv
		}
		ln.grants = slices.Delete(ln.grants, 0, 1)
	}
	return nil
}

// queued is the credit of a receiver that waits.
func (ln *line) queued(r *receiver) (n int32) {
	for _, g := range ln.grants {
		if g.rcv == r {
			n += g.credit
		}
	}
	return n
}

const (
	turnEvery = 8  // deliveries of a receiver, the last of which goes to the ports in turn
	maxYields = 20 // turns that a port waits for others to take it
)

// yields reports whether the receiver that is served leaves its credit to another port (SM-384):
// where the delivery goes to the ports in turn, to the next of those in line, unless there are
// eight more for each of them.
func (s *shadow) yields(ln *line, r *receiver) bool {
	if !r.shared {
		return false
	}
	is := s.looks(r)
	hosts := r.real.Hosts()
	me := slices.Index(hosts, engine.PartitionID(s.p.id))
	others := 0
	for port := range hosts {
		others += turnEvery * bit(port != me && is.Line>>port&1 != 0)
	}
	next := (int(is.Last) + 1) % len(hosts)
	for next != me && is.Line>>next&1 == 0 {
		next = (next + 1) % len(hosts)
	}
	if is.Taken%turnEvery != turnEvery-1 || int(is.Left) > others || next == me || r.yields >= maxYields {
		r.yields = 0
		return false
	}
	r.yields++
	s.w.stats.Yielded++
	ln.grants = append(ln.grants[1:], ln.grants[0])
	return true
}

// takes uses one credit of the receiver that is served; false: others have used it up.
func (s *shadow) takes(ln *line, r *receiver) bool {
	if r.shared {
		is := s.looks(r)
		if is.Left <= 0 {
			s.w.stats.CreditUsed++
			return false
		}
		again := r.drain == drainAnswered && is.Flows == r.flows && is.Owing > 0
		switch {
		case r.drain < drainSaid:
		case again || r.drain == drainSaid:
			r.drain = drainOwed
			ln.drains = append(ln.drains, r.last)
		default:
			r.drain = drainNone
		}
	}
	ln.grants[0].credit--
	return true
}

// sharedFlow puts a flow in force, if no other port has.
func (s *shadow) sharedFlow(ln *line, a *ask) (left int32) {
	r := a.rcv
	change := int32(a.limit - r.before)
	r.before = a.limit
	r.flows++
	is := s.looks(r)
	if is.Flows < r.flows {
		is.Left += change
	}
	left = max(0, is.Left)
	if change < 0 {
		ln.revoke(r, min(-change, ln.queued(r)))
	}
	for i, used := 0, ln.queued(r)-(left-min(max(change, 0), left)); i < len(ln.grants) && used > 0; i++ {
		if g := &ln.grants[i]; g.rcv == r {
			n := min(g.credit, used)
			g.credit -= n
			used -= n
		}
	}
	if more := left - ln.queued(r); more > 0 {
		ln.grants = append(ln.grants, grant{r, more})
	}
	ln.trim()
	if r.drain = drainNone; a.drain {
		r.drain, r.last = drainOwed, a
	}
	return left
}

// revoke takes credit from the newest grants of a receiver.
func (ln *line) revoke(r *receiver, credit int32) {
	for i := len(ln.grants) - 1; i >= 0; i-- {
		if g := &ln.grants[i]; g.rcv == r {
			n := min(g.credit, credit)
			g.credit -= n
			credit -= n
		}
	}
	ln.trim()
}

// sharedDrain is what a port does that has nothing more for a drain.
func (s *shadow) sharedDrain(now int64, ln *line, a *ask) {
	r := a.rcv
	if r.drain != drainOwed {
		return // it thought better of it
	}
	x := want{tag: r.tag, kind: engine.ReplyDrained, ask: r.last, at: now}
	switch is := s.looks(r); {
	case is.Flows != r.flows || is.Owing == 0:
		r.drain = drainNone
		return
	case is.Owing == 1:
		ln.revoke(r, ln.queued(r))
		r.drain = drainNone
	default:
		r.drain = drainSaid
		r.saying++
		x.answers = r
	}
	s.tell(r, x, s.m.Solid)
}

// drainAnswered: a port's answer leaves behind its deliveries. It reports whether the drain is over
// with that.
func (s *shadow) drainAnswered(r *receiver) bool {
	if r.line == nil {
		return false
	}
	if r.saying--; r.saying > 0 || r.drain != drainSaid {
		return false
	}
	switch is := s.looks(r); {
	case is.Flows != r.flows || is.Owing == 0:
		r.drain = drainNone
	case is.Owing == 1:
		r.drain = drainNone
		s.w.stats.DrainsJoint++
		return true
	default:
		r.drain = drainAnswered
	}
	return false
}

// turn is the partition whose turn it is; nil: there is nothing in any of them.
func (ln *line) turn() *queue {
	for _, q := range ln.look {
		if int(q.slice.Partition) > ln.last {
			return q
		}
	}
	if len(ln.look) > 0 {
		return ln.look[0]
	}
	return nil
}

func (ln *line) empty(q *queue) {
	ln.look = slices.DeleteFunc(ln.look, func(o *queue) bool { return o == q })
}

// wakes notes that there is something in a partition.
func (ln *line) wakes(q *queue) {
	if slices.Contains(ln.here, q) && !slices.Contains(ln.look, q) {
		ln.look = append(ln.look, q)
		slices.SortFunc(ln.look, byPartition)
	}
}

// hasSession: a receiver was given one, through one of its ports.
func (r *receiver) hasSession(lock model.Token) {
	c := r.client()
	c.granted, c.lock = true, lock
}

// starving checks that no receiver of an entity with several partitions that can take more is left
// without messages that a serving log has for it: once all loops are at rest nothing would ever
// wake them (10.4, I26).
func (w *world) starving() {
	if slices.ContainsFunc(w.parts, func(p *part) bool { return len(p.inbox) > 0 || p.shadow.more() || p.loop.Busy() }) {
		return
	}
	for _, r := range w.receivers {
		if len(r.ports) == 0 || r.leaving || loop.PortsOf(r.real).Left <= 0 {
			continue
		}
		for _, port := range r.ports {
			if port.line == nil || port.q.host.away || port.q.host.shadow.halted {
				continue
			}
			for _, q := range port.line.here {
				var session *string
				if port.line.holder != nil {
					session = &port.session
				}
				if m := q.model.Deliverable(port.sub, session); m != nil && !q.model.Settings.NoReceive {
					w.broken("I26", "%s: receiver %d takes %d more, message %d of partition %d is there, and nobody gives it", q.path, r.tag, loop.PortsOf(r.real).Left, m.Seq, q.slice.Partition)
				}
			}
		}
	}
}
