package index

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	fanBits = 6
	fan     = 1 << fanBits
)

// node is a part of the tree in which the rows of a slice stand by sequence number: a leaf has the
// rows of up to 64 messages whose numbers differ in the last six bits, a branch has up to 64 nodes
// that differ in the six bits above theirs. The root is the lowest node that has all numbers: with
// few messages it is a leaf. Snapshots share nodes; [versions] says which may be changed in place.
type node struct {
	number uint64  // what all sequence numbers in it begin with: each without its last span() bits
	made   version // the node, and what it points to but for kids
	level  uint8   // 0: a leaf
	live   uint64  // of a leaf, the messages there are; of a branch, its kids
	kids   *[fan]*node
	// of a leaf, for which numbers there is room in rows: the live ones and some that are gone
	used  uint64
	rows  []row  // of a leaf, one for each bit of used
	extra *extra // of a leaf, if it has any
}

// extra is what few leaves have to keep.
type extra struct {
	origins origins
	changes []change
	sources []deadLetterSource
}

// origins are the numbers that messages of a leaf had in the entity that they were sent to.
// Messages that came one after the other from one entity have numbers that differ from ours by a
// constant, so most leaves need no list.
type origins struct {
	// messages whose number there is ours plus apart, by the last bits of ours
	alike uint64
	apart event.SequenceNumber // it wraps
	// nil, or for each row the number of one that is not alike; 0: it was sent here
	others []event.SequenceNumber
}

// deadLetterSource is the entity out of whose dead-letter queue a message came.
type deadLetterSource struct {
	at   uint8 // which of the leaf's
	path string
}

// change is the property changes of a message, oldest first.
type change struct {
	at    uint8 // which of the leaf's
	blobs []event.Blob
}

// span is by how many bits the numbers in a node differ.
func (n *node) span() int { return fanBits * (int(n.level) + 1) }

// has reports whether a sequence number is among those that a node is for.
func (n *node) has(seq event.SequenceNumber) bool { return uint64(seq)>>n.span() == n.number }

// kid is the place of a sequence number among the kids of a branch.
func (n *node) kid(seq event.SequenceNumber) int {
	return int(uint64(seq) >> (fanBits * int(n.level)) & (fan - 1))
}

// leaf is the leaf for a sequence number, or nil.
func (n *node) leaf(seq event.SequenceNumber) *node {
	if n == nil || !n.has(seq) {
		return nil
	}
	for n != nil && n.level > 0 {
		n = n.kids[n.kid(seq)]
	}
	return n
}

// place is where the row of a live message stands. It is none without a leaf.
type place struct {
	leaf *node
	at   uint8 // which of the leaf's
}

func (p place) rank() int { return bits.OnesCount64(p.leaf.used & (1<<p.at - 1)) }

func (p place) sequence() event.SequenceNumber {
	return event.SequenceNumber(p.leaf.number<<fanBits | uint64(p.at))
}

// row is that of the message; nil when there is none.
func (p place) row() *row {
	if p.leaf == nil {
		return nil
	}
	return &p.leaf.rows[p.rank()]
}

// origin is the number that the message had in the entity that it was sent to; 0 when that was this
// one.
func (p place) origin() event.SequenceNumber {
	switch e := p.leaf.extra; {
	case e == nil:
		return 0
	case e.origins.alike>>p.at&1 != 0:
		return p.sequence() + e.origins.apart
	case e.origins.others != nil:
		return e.origins.others[p.rank()]
	}
	return 0
}

// source is the path of the entity out of whose dead-letter queue the message came; "": of none.
func (p place) source() string {
	if e := p.leaf.extra; e != nil {
		if i := slices.IndexFunc(e.sources, func(s deadLetterSource) bool { return s.at == p.at }); i >= 0 {
			return e.sources[i].path
		}
	}
	return ""
}

// changes are the message's property changes. They are not to be changed.
func (p place) changes() []event.Blob {
	if e := p.leaf.extra; e != nil {
		if i := slices.IndexFunc(e.changes, func(c change) bool { return c.at == p.at }); i >= 0 {
			return e.changes[i].blobs
		}
	}
	return nil
}

// each yields the live messages from a number on, in order, and reports whether that was all of
// them.
func (n *node) each(from event.SequenceNumber, yield func(place) bool) bool {
	if n == nil {
		return true
	}
	left := n.live
	if n.has(from) {
		left &= ^uint64(0) << n.kid(from)
	} else if uint64(from)>>n.span() > n.number {
		return true
	}
	for ; left != 0; left &= left - 1 {
		at := bits.TrailingZeros64(left)
		if n.level == 0 {
			if !yield(place{n, uint8(at)}) {
				return false
			}
		} else if !n.kids[at].each(from, yield) {
			return false
		}
	}
	return true
}

// own returns a node that may be changed: this one, or a copy.
func (n *node) own(v *versions) *node {
	if v.isOwned(n.made) {
		return n
	}
	c := *n
	c.made = v.now
	v.copied.Add(int64(unsafe.Sizeof(c)))
	if n.level > 0 {
		kids := *n.kids
		c.kids = &kids
		v.copied.Add(int64(unsafe.Sizeof(kids)))
		return &c
	}
	c.rows = append(make([]row, 0, cap(n.rows)), n.rows...)
	v.copied.Add(int64(cap(n.rows)) * int64(unsafe.Sizeof(row{})))
	if n.extra != nil {
		c.extra = &extra{n.extra.origins, slices.Clone(n.extra.changes), slices.Clone(n.extra.sources)}
		c.extra.origins.others = slices.Clone(n.extra.origins.others)
	}
	return &c
}

// insert makes the row of a new message. The leaf's newest messages come last in it, so it seldom
// has to move others.
func (n *node) insert(seq event.SequenceNumber) *row {
	p := place{n, uint8(seq & (fan - 1))}
	bit, i := uint64(1)<<p.at, p.rank()
	n.live |= bit
	if n.used&bit != 0 { // a number that is used again: a planted bug does that
		return &n.rows[i]
	}
	if len(n.rows) == cap(n.rows) {
		if gone := len(n.rows) - (bits.OnesCount64(n.live) - 1); gone > len(n.rows)/2 {
			n.live &^= bit
			n.pack()
			n.live |= bit
		} else {
			n.rows = append(make([]row, 0, min(fan, max(1, 4*cap(n.rows)))), n.rows...)
		}
		i = p.rank()
	}
	n.used |= bit
	if i == len(n.rows) {
		n.rows = append(n.rows, row{})
	} else {
		n.rows = slices.Insert(n.rows, i, row{})
	}
	if n.extra != nil && n.extra.origins.others != nil {
		n.extra.origins.others = slices.Insert(n.extra.origins.others, i, 0)
	}
	return &n.rows[i]
}

// pack removes the rows of messages that are gone, to make room for others.
func (n *node) pack() {
	from, to := 0, 0
	for left := n.used; left != 0; left &= left - 1 {
		if n.live&left&-left != 0 {
			n.rows[to] = n.rows[from]
			if n.extra != nil && n.extra.origins.others != nil {
				n.extra.origins.others[to] = n.extra.origins.others[from]
			}
			to++
		}
		from++
	}
	n.rows, n.used = n.rows[:to], n.live
	if n.extra != nil && n.extra.origins.others != nil {
		n.extra.origins.others = n.extra.origins.others[:to]
	}
}

// remove takes a message out, and most of the room when little of it is used.
func (n *node) remove(seq event.SequenceNumber) {
	p := place{n, uint8(seq & (fan - 1))}
	*p.row() = row{}
	if e := n.extra; e != nil {
		e.changes = slices.DeleteFunc(e.changes, func(c change) bool { return c.at == p.at })
		e.sources = slices.DeleteFunc(e.sources, func(s deadLetterSource) bool { return s.at == p.at })
		e.origins.alike &^= 1 << p.at
		if e.origins.others != nil {
			e.origins.others[p.rank()] = 0
		}
	}
	n.live &^= 1 << p.at
	few := 4
	if n.used>>(fan-1) == 0 { // more messages will come
		few = 16
	}
	if left := bits.OnesCount64(n.live); cap(n.rows) >= 16 && left > 0 && left*few <= len(n.rows) {
		n.pack()
		n.rows = append(make([]row, 0, left), n.rows...)
		if n.extra != nil {
			n.extra.origins.others = slices.Clone(n.extra.origins.others)
		}
	}
}

// rows are the live messages of a slice.
type rows struct {
	root   *node
	recent *node // the leaf changed last, nil or still in the tree: the owner begins with it
}

// find returns where the row of a live message stands.
func (t *rows) find(seq event.SequenceNumber) (p place) {
	l := t.recent
	if l == nil || !l.has(seq) {
		l = t.root.leaf(seq)
	}
	if l != nil && l.live>>(seq&(fan-1))&1 != 0 {
		p = place{l, uint8(seq & (fan - 1))}
	}
	return p
}

// insert makes the row of a new message.
func (t *rows) insert(v *versions, seq event.SequenceNumber) *row {
	return t.leaf(v, seq, true).insert(seq)
}

// leaf is the leaf for a sequence number, to be changed; nil when there is none and none is to be
// made.
func (t *rows) leaf(v *versions, seq event.SequenceNumber, create bool) *node {
	if t.recent != nil && v.isOwned(t.recent.made) && t.recent.has(seq) {
		return t.recent
	}
	if create {
		t.reach(v, seq)
	}
	if t.root == nil || !t.root.has(seq) {
		return nil
	}
	t.root = t.root.own(v)
	n := t.root
	for n.level > 0 {
		i := n.kid(seq)
		switch {
		case n.kids[i] != nil:
			n.kids[i] = n.kids[i].own(v)
		case !create:
			return nil
		default:
			n.kids[i] = t.newNode(v, seq, n.level-1)
			n.live |= 1 << i
		}
		n = n.kids[i]
	}
	t.recent = n
	return n
}

// reach makes a root that is for a sequence number, too.
func (t *rows) reach(v *versions, seq event.SequenceNumber) {
	switch {
	case t.root == nil:
		t.root = t.newNode(v, seq, 0)
	case t.root.live == 0 && !t.root.has(seq): // an empty leaf is left of messages that are gone
		t.root = t.root.own(v)
		t.root.number = uint64(seq) >> fanBits
	}
	for !t.root.has(seq) {
		below := t.root
		t.root = &node{number: below.number >> fanBits, level: below.level + 1, made: v.now, kids: new([fan]*node)}
		i := below.number & (fan - 1)
		t.root.kids[i], t.root.live = below, 1<<i
	}
}

// newNode makes a node for a sequence number. A leaf behind a full one gets full as well, most
// likely.
func (t *rows) newNode(v *versions, seq event.SequenceNumber, level uint8) *node {
	n := &node{level: level, made: v.now}
	n.number = uint64(seq) >> n.span()
	switch {
	case level > 0:
		n.kids = new([fan]*node)
	case t.recent != nil && t.recent.number+1 == n.number && bits.OnesCount64(t.recent.live) >= fan/2:
		n.rows = make([]row, 0, fan)
	}
	return n
}

// edit returns the row of a live message, to be changed; nil when there is none.
func (t *rows) edit(v *versions, seq event.SequenceNumber) *row {
	l := t.leaf(v, seq, false)
	if l == nil || l.live>>(seq&(fan-1))&1 == 0 {
		return nil
	}
	return place{l, uint8(seq & (fan - 1))}.row()
}

// remove takes the row of a message out of the tree, and what is empty then.
func (t *rows) remove(v *versions, seq event.SequenceNumber) {
	l := t.leaf(v, seq, false)
	l.remove(seq)
	if l.live != 0 {
		return
	}
	if t.root == l { // kept for the next message, if it is small
		if l.pack(); cap(l.rows) > 4 {
			t.root, t.recent = nil, nil
		}
		return
	}
	t.recent = nil
	cut := t.root // the lowest branch that stays
	for n := t.root; n != l; n = n.kids[n.kid(seq)] {
		if n.live&(n.live-1) != 0 {
			cut = n
		}
	}
	i := cut.kid(seq)
	cut.kids[i] = nil
	cut.live &^= 1 << i
	for t.root.level > 0 && t.root.live&(t.root.live-1) == 0 {
		t.root = t.root.kids[bits.TrailingZeros64(t.root.live)]
	}
}

// setOrigin notes the number that a message had in the entity that it was sent to.
func (p place) setOrigin(origin event.SequenceNumber) {
	if p.leaf.extra == nil {
		p.leaf.extra = new(extra)
	}
	o := &p.leaf.extra.origins
	apart, bit := origin-p.sequence(), uint64(1)<<p.at
	if o.alike == 0 {
		o.apart = apart
	}
	if o.apart == apart {
		o.alike |= bit
		return
	}
	o.alike &^= bit
	if o.others == nil {
		o.others = make([]event.SequenceNumber, len(p.leaf.rows), cap(p.leaf.rows))
	}
	o.others[p.rank()] = origin
}

// setSource notes out of which entity's dead-letter queue a message came.
func (p place) setSource(path string) {
	if p.leaf.extra == nil {
		p.leaf.extra = new(extra)
	}
	p.leaf.extra.sources = append(p.leaf.extra.sources, deadLetterSource{p.at, path})
}

// addChange notes another property change of a message.
func (p place) addChange(b event.Blob) {
	if p.leaf.extra == nil {
		p.leaf.extra = new(extra)
	}
	e := p.leaf.extra
	i := slices.IndexFunc(e.changes, func(c change) bool { return c.at == p.at })
	if i < 0 {
		i = len(e.changes)
		e.changes = append(e.changes, change{at: p.at})
	}
	// a snapshot may have the ones so far
	e.changes[i].blobs = append(slices.Clip(e.changes[i].blobs), b)
}
