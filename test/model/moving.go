package model

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// MaxHops is how many times a message moves, at most (13.5).
const MaxHops = 4

// How much of a queue may be in transfer at a time.
const (
	window      = 256
	windowBytes = 4 << 20
	lookStep    = 2048 // messages that are looked at for one record
	maxImport   = 256 << 10
)

// Trigger is why a message moves.
type Trigger uint8

const (
	Forward     Trigger = iota + 1 // ForwardTo
	ForwardDead                    // ForwardDeadLetteredMessagesTo
	Via                            // it was sent through the queue to another (12.5)
)

// Transfer is a move that goes on (13.4).
type Transfer struct {
	Number  uint64 // in the queue it leaves, from 1
	To      int    // id of the queue it goes to
	Trigger Trigger
}

// Arrivals is what a queue, or topic, knows of moves from another one: those below the floor are
// over there, for ever, and those in the set are stored here. Moved is the truth: which of them
// ever were stored here.
type Arrivals struct {
	Floor uint64
	Set   map[uint64]bool
	Moved map[uint64]int // with the record
}

// Knows reports whether a move is taken for one that has arrived.
func (a *Arrivals) Knows(number uint64) bool { return a != nil && (number < a.Floor || a.Set[number]) }

// Arriving is a message that comes from another queue.
type Arriving struct {
	Number  uint64
	Draft   Draft  // as it was sent first, but for what follows
	Hops    int    // this one included
	First   uint64 // number where it was sent first
	Source  string // path of the entity in whose dead-letter queue it was; "": in none
	Changes []byte // of its properties so far, in one
}

// Landing is what became of an arriving message.
type Landing struct {
	Known   bool // it is here already
	Dropped bool // it is a duplicate (11)
	Refusal Refusal
}

// open are the moves of a queue that go on, for one reason, and their bytes.
func (q *Queue) open(trigger Trigger) (n int, size int64) {
	for _, m := range q.Live {
		if m.Transfer != nil && m.Transfer.Trigger == trigger {
			n++
			size += m.bytes()
		}
	}
	return n, size
}

// Moving is the message of a move that goes on, or nil.
func (q *Queue) Moving(number uint64) *Message {
	for _, m := range q.Live {
		if m.Transfer != nil && m.Transfer.Number == number {
			return m
		}
	}
	return nil
}

// LowestOpen is the smallest number of a move to a queue that goes on; 0: none does.
func (q *Queue) LowestOpen(to int) (lowest uint64) {
	for _, m := range q.Live {
		if t := m.Transfer; t != nil && t.To == to && (lowest == 0 || t.Number < lowest) {
			lowest = t.Number
		}
	}
	return lowest
}

// transfer puts a message in transfer, under the next number.
func (p *Partition) transfer(q *Queue, m *Message, to int, trigger Trigger) {
	before := q.Transfers
	p.changing(func() { q.Transfers = before })
	q.Transfers++
	m.State, m.Transfer = Transferring, &Transfer{q.Transfers, to, trigger}
}

// mayHandOver looks at messages that are sent through a queue to another one (12.5), which takes
// them up to a size, and adds up their bytes.
func (p *Partition) mayHandOver(q *Queue, drafts []Draft, largest int64) (size int64, r Refusal) {
	if q.Settings.NoSend && q.Settings.NoReceive {
		return 0, Disabled
	}
	for _, d := range drafts {
		if int64(len(d.Body)) > min(q.Settings.MaxMessage, largest)+idRoom {
			return 0, TooLarge
		}
		size += int64(len(d.Body))
	}
	if !p.fits(q, size) {
		return 0, QuotaExceeded
	}
	return size, Accepted
}

// HandOver stores messages that are sent through a queue to another one, which takes them up to a
// size: they are in transfer at once, and nobody sees them here (12.5).
func (p *Partition) HandOver(now int64, q *Queue, drafts []Draft, to int, largest int64) (numbers []uint64, r Refusal) {
	size, r := p.mayHandOver(q, drafts, largest)
	if p.NoSends {
		return nil, Busy
	}
	if r != Accepted {
		return nil, r
	}
	p.record(now, true)
	p.added(q, size)
	for i := range drafts {
		d := &drafts[i]
		m := &Message{Seq: q.Last + 1, Body: d.Body, State: Transferring, Loose: true, EnqueuedAt: now, OwnTTL: d.TTL, Draft: d}
		p.transfer(q, m, to, Via)
		p.store(q, m)
		numbers = append(numbers, m.Seq)
	}
	return numbers, Accepted
}

// Forward puts the first deliverable messages of a queue in transfer, as many as there is room for,
// and ends what stands in their way: what has expired, and what has moved too often. All of it is
// one record. It reports whether there is more.
func (p *Partition) Forward(now int64, q *Queue, dead bool, to int, tooOften bool) (again bool) {
	trigger := Forward
	if dead {
		trigger = ForwardDead
	}
	n, bytes := q.open(trigger)
	if q.Dropped || q.Settings.NoReceive || n >= window || bytes >= windowBytes {
		return false
	}
	begun, room := false, windowBytes-bytes
	var started, more int64
	looks := 0
	for _, m := range slices.Clone(q.Live) {
		if m.State != Active || m.Dead != dead || m.TransferDead || dead && (m.Stays || m.Hops >= MaxHops) {
			continue
		}
		if looks++; looks > lookStep || started > 0 && (started >= int64(window-n) || more >= room) {
			return true
		}
		if !begun {
			p.record(now, true)
			begun = true
		}
		switch {
		case m.expired(now):
			p.expire(q, m, 0)
		case m.Hops >= MaxHops:
			p.bury(q, m.Seq, p.told(m.room(0), "MaxTransferHopCountExceeded",
				"The maximum number of allowed hops when forwarding between queues has been exceeded."))
			p.touch(q, m.Seq).Stays, m.TransferDead = true, tooOften
		default:
			started++
			more += int64(len(m.Body))
			p.transfer(q, p.touch(q, m.Seq), to, trigger)
			p.settled(q, m.Session)
		}
	}
	return false
}

// Finish ends moves: the messages are where they were going.
func (p *Partition) Finish(now int64, q *Queue, numbers []uint64) {
	begun := false
	for _, n := range numbers {
		m := q.Moving(n)
		if m == nil {
			continue
		}
		if !begun {
			p.record(now, false) // at worst they are offered once more, and recognized
			begun = true
		}
		p.over(q, m)
		p.remove(q, m.Seq, Forwarded)
	}
}

// over notes when a move was over.
func (p *Partition) over(q *Queue, m *Message) {
	t := *m.Transfer
	p.changing(func() { delete(q.Over, t.Number) })
	if q.Over == nil {
		q.Over = map[uint64]Over{}
	}
	q.Over[t.Number] = Over{t.To, p.Records}
}

// Over is the end of a move: where it went, and the record that says so.
type Over struct{ To, Record int }

// Fail ends a move that its destination refused for good: the message goes to a dead-letter queue,
// and is told why, as far as there is room beside its header, where that is known, or back to the
// one it was in, where it stays.
func (p *Partition) Fail(now int64, q *Queue, number uint64, header int, reason, text string, back, transferQueue bool) {
	m := q.Moving(number)
	if m == nil {
		return
	}
	p.record(now, true)
	p.over(q, m)
	m = p.touch(q, m.Seq)
	m.Stays = m.Stays || m.Transfer.Trigger == ForwardDead && reason != "MessagingEntityNotFoundException"
	m.State, m.Transfer, m.Dead, m.TransferDead = Active, nil, true, transferQueue
	if !back {
		m.change(p.told(MaxHeader-max(header, m.changed()), reason, text))
	}
	p.settled(q, m.Session)
	// it is dead: nobody who waits for its session gets it
	p.News = append(p.News, News{Queue: q, Kind: Returned, Loose: true})
}

// arrivals are what a queue knows of moves from another one, ready to be changed.
func (p *Partition) arrivals(q *Queue, source int) *Arrivals {
	before := q.Arrived[source]
	p.changing(func() {
		if delete(q.Arrived, source); before != nil {
			q.Arrived[source] = before
		}
	})
	after := &Arrivals{Set: map[uint64]bool{}, Moved: map[uint64]int{}}
	if before != nil {
		after = &Arrivals{before.Floor, maps.Clone(before.Set), maps.Clone(before.Moved)}
	}
	if q.Arrived == nil {
		q.Arrived = map[int]*Arrivals{}
	}
	q.Arrived[source] = after
	return after
}

// arrived notes that a move is here, and what its source said of those before it.
func (p *Partition) arrived(q *Queue, source int, floor, number uint64) {
	a := p.arrivals(q, source)
	a.Floor = max(a.Floor, floor)
	a.Set[number], a.Moved[number] = true, p.Records
	maps.DeleteFunc(a.Set, func(n uint64, _ bool) bool { return n < a.Floor })
	used := q.Used
	p.changing(func() { q.Used = used })
	q.Used = true
}

// Import takes messages in that come from another queue, each for itself: one that is known changes
// nothing, the others are let in, or refused, as if they were sent now (13.3). What is taken in is
// one record.
func (p *Partition) Import(now int64, q *Queue, source int, floor uint64, items []Arriving, waits bool) (results []Landing) {
	begun := false
	begin := func() {
		if !begun {
			p.record(now, true)
			begun = true
		}
	}
	p.Copies = nil
	bytes := 0
	for i := range items {
		it := &items[i]
		d := it.Draft
		d.arrived = it
		if bytes += len(d.Body); i > 0 && bytes > maxImport {
			break // the others have their turn
		}
		if q.Arrived[source].Knows(it.Number) {
			results = append(results, Landing{Known: true})
			continue
		}
		r, dropped := p.land(now, q, d, begin)
		if r == Accepted {
			p.arrived(q, source, floor, it.Number)
		}
		if results = append(results, Landing{Dropped: dropped, Refusal: r}); waits && r == QuotaExceeded {
			break // there may be room later
		}
	}
	return results
}

// land takes one message in.
func (p *Partition) land(now int64, q *Queue, d Draft, begin func()) (r Refusal, dropped bool) {
	size, r := q.mayStore([]Draft{d})
	size += int64(len(d.arrived.Changes))
	if r != Accepted {
		return r, false
	}
	if q.Topic != nil {
		return NotAllowed, false
	}
	if !q.Settings.Topic && !p.fits(q, size) {
		return QuotaExceeded, false
	}
	if _, twice := q.duplicate(now, d.ID); twice {
		begin()
		return Accepted, true
	}
	var copies []Copy
	if q.Settings.Topic && d.For <= now {
		if copies, r = p.copies(now, q, &d, q.Last+1, q.Settings.FilterFirst); r != Accepted {
			return r, false
		}
		size = 0
		for _, c := range copies {
			size += c.Message.bytes()
		}
	}
	if q.Settings.Topic && !p.fits(q, size) {
		return QuotaExceeded, false
	}
	begin()
	p.remember(now, q, d.ID, q.Last+1)
	if q.Settings.Topic && d.For <= now {
		p.passOn(q, q.Last+1, copies)
		return Accepted, false
	}
	m := d.message(q, now)
	p.store(q, m)
	if m.State == Active {
		p.tell(q, Returned, m)
	}
	return Accepted, false
}

// message is what a queue stores of a draft, under its next number.
func (d *Draft) message(q *Queue, now int64) *Message {
	m := &Message{Seq: q.Last + 1, Body: d.Body, State: Active, EnqueuedAt: now, OwnTTL: d.TTL, For: d.For, Draft: d}
	if a := d.arrived; a != nil {
		m.arrived(a)
		m.change(a.Changes)
	}
	if q.Settings.Sessions {
		m.Session = d.Session
	}
	if d.number != 0 {
		m.Seq = d.number
	}
	if m.For > now || d.number != 0 {
		m.State = Scheduled
		return m
	}
	m.For = 0
	m.live(now, q.Settings.TTL)
	return m
}

// arrived notes where a message comes from.
func (m *Message) arrived(a *Arriving) { m.Hops, m.From, m.Source = a.Hops, a.First, a.Source }

// Properties are the application properties and the session id of a message as they are after
// changes: what was sent, changed so.
type Properties struct {
	Values     map[string]any // nil, an int64, a string, a Token, or what is encoded otherwise
	Session    string
	HasSession bool
}

// Changed is what changes make of a draft's properties.
func (d *Draft) Changed(changes ...[]byte) (p Properties) {
	p = Properties{map[string]any{}, d.Session, d.HasSession}
	if d.Color != "" {
		p.Values["color"] = d.Color
	}
	if d.N != nil {
		p.Values["n"] = *d.N
	}
	for _, c := range changes {
		r := reader{c}
		r.byte()
		for range r.number() {
			delete(p.Values, r.text())
		}
		for range r.number() {
			name, v := r.entry()
			p.Values[name] = v
		}
		for range r.number() {
			if name, v := r.entry(); name == "SessionId" {
				p.Session, p.HasSession = v.(string)
			}
		}
	}
	return p
}

// Equal compares properties.
func (p *Properties) Equal(o *Properties) bool {
	return p.Session == o.Session && p.HasSession == o.HasSession && maps.EqualFunc(p.Values, o.Values, func(a, b any) bool {
		x, ok := a.(encodedValue)
		y, too := b.(encodedValue)
		return ok == too && (ok && slices.Equal(x, y) || !ok && a == b)
	})
}

// reader reads property changes as they are stored.
type reader struct{ rest []byte }

func (r *reader) byte() byte {
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	r.rest = r.rest[size:]
	return n
}

func (r *reader) text() string {
	n := r.number()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return string(s)
}

func (r *reader) entry() (name string, v any) {
	name = r.text()
	kind, n, s := r.byte(), r.number(), r.text()
	switch kind {
	case 3:
		v = int64(n)
	case 6:
		v = s
	case 7:
		v = Token([]byte(s))
	case 254:
		v = encodedValue(s)
	}
	return name, v
}

// Merge is changes in one, the oldest first: what counts is what was said last of each property.
func Merge(changes [][]byte) []byte {
	var names, order []string
	removed, sets, system := map[string]bool{}, map[string]any{}, []byte(nil)
	for _, c := range changes {
		r := reader{c}
		r.byte()
		for range r.number() {
			name := r.text()
			if delete(sets, name); !removed[name] {
				removed[name] = true
				names = append(names, name)
			}
		}
		for range r.number() {
			name, v := r.entry()
			if _, there := sets[name]; !there && !slices.Contains(order, name) {
				order = append(order, name)
			}
			sets[name], removed[name] = v, false
		}
		for range r.number() {
			name, v := r.entry()
			system = entry(name, v) // there is one at most: the session id
		}
	}
	var taken, set []byte
	n, k, systems := 0, 0, 0
	for _, name := range names {
		if removed[name] {
			taken = append(taken, text(name)...)
			n++
		}
	}
	for _, name := range order {
		if v, there := sets[name]; there {
			set = append(set, entry(name, v)...)
			k++
		}
	}
	if system != nil {
		systems = 1
	}
	if n+k+systems == 0 {
		return nil
	}
	return stored(n, taken, k, set, systems, system)
}

// Forget forgets what came from a queue that is gone.
func (p *Partition) Forget(now int64, q *Queue, source int) {
	p.record(now, true)
	before := q.Arrived[source]
	p.changing(func() { q.Arrived[source] = before })
	delete(q.Arrived, source)
}

// seen is what rules see of a draft's properties.
func (d *Draft) seen() Properties {
	if d.arrived != nil && len(d.arrived.Changes) > 0 {
		return d.Changed(d.arrived.Changes)
	}
	return d.Changed()
}

func (p *Properties) get(name string) any {
	for n, v := range p.Values {
		if strings.EqualFold(n, name) {
			return v
		}
	}
	return nil
}
