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

// node is a part of the tree of a slice's rows by sequence number. A leaf has the rows of up to 64
// messages whose numbers differ in the last six bits. A branch has up to 64 nodes that differ in
// the six bits above theirs. The root is the lowest node that has all numbers: with few messages it
// is a leaf. Snapshots share nodes; [versions] says which may be changed in place.
type node struct {
	// common beginning of all sequence numbers in it: each without its last span() bits
	number uint64
	made   version // of the node, and of the data it points to, except kids
	level  uint8   // 0: a leaf
	live   uint64  // of a leaf, the existing messages; of a branch, its kids
	kids   *[fan]*node
	// of a leaf, the numbers with room in rows: the live ones and some removed ones
	used  uint64
	rows  []row  // of a leaf, one for each bit of used
	extra *extra // of a leaf, if it has any
}

// extra is data that only a few leaves have.
type extra struct {
	origins origins
	changes []change
	sources []deadLetterSource
}

// origins are the numbers of a leaf's messages in the entity where they were sent. Consecutive
// messages from one entity have numbers there that differ from the numbers here by a constant, so
// most leaves need no list.
type origins struct {
	// messages whose number there is the number here plus apart, by the last bits of the number
	// here
	alike uint64
	apart event.SequenceNumber // wraps around
	// nil, or for each row its number if it is not in alike; 0: it was sent here
	others []event.SequenceNumber
}

// deadLetterSource is the entity from whose dead-letter queue a message came.
type deadLetterSource struct {
	at   uint8 // number in the leaf
	path string
}

// change has the property changes of a message, oldest first.
type change struct {
	at    uint8 // number in the leaf
	blobs []event.Blob
}

// span returns by how many bits the numbers in a node differ.
func (n *node) span() int { return fanBits * (int(n.level) + 1) }

// has reports whether a node is for a sequence number.
func (n *node) has(seq event.SequenceNumber) bool { return uint64(seq)>>n.span() == n.number }

// kid returns the place of a sequence number among the kids of a branch.
func (n *node) kid(seq event.SequenceNumber) int {
	return int(uint64(seq) >> (fanBits * int(n.level)) & (fan - 1))
}

// leaf returns the leaf for a sequence number, or nil.
func (n *node) leaf(seq event.SequenceNumber) *node {
	if n == nil || !n.has(seq) {
		return nil
	}
	for n != nil && n.level > 0 {
		n = n.kids[n.kid(seq)]
	}
	return n
}

// place is the place of a live message's row. Without a leaf it is none.
type place struct {
	leaf *node
	at   uint8 // number in the leaf
}

func (p place) rank() int { return bits.OnesCount64(p.leaf.used & (1<<p.at - 1)) }

func (p place) sequence() event.SequenceNumber {
	return event.SequenceNumber(p.leaf.number<<fanBits | uint64(p.at))
}

// row returns the row of the message; nil if there is none.
func (p place) row() *row {
	if p.leaf == nil {
		return nil
	}
	return &p.leaf.rows[p.rank()]
}

// origin returns the message's number in the entity where it was sent; 0 if it was sent here.
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

// source returns the path of the entity from whose dead-letter queue the message came; "": of none.
func (p place) source() string {
	if e := p.leaf.extra; e != nil {
		if i := slices.IndexFunc(e.sources, func(s deadLetterSource) bool { return s.at == p.at }); i >= 0 {
			return e.sources[i].path
		}
	}
	return ""
}

// changes returns the message's property changes. The caller must not change them.
func (p place) changes() []event.Blob {
	if e := p.leaf.extra; e != nil {
		if i := slices.IndexFunc(e.changes, func(c change) bool { return c.at == p.at }); i >= 0 {
			return e.changes[i].blobs
		}
	}
	return nil
}

// each yields the live messages from a number on, in order, and reports whether it yielded all of
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

// insert makes the row of a new message. The newest messages are last in a leaf, so it seldom has
// to move others.
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

// pack removes the rows of removed messages, to make room for others.
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

// remove removes a message, and most of the room if little of it is used.
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
	if n.used>>(fan-1) == 0 { // more messages will follow
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

// rows has the live messages of a slice.
type rows struct {
	root *node
	// the leaf that was last changed, nil or still in the tree: the owner begins with it
	recent *node
}

// find returns the place of a live message's row.
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

// leaf returns the leaf for a sequence number for changing; nil if there is none and create is
// false.
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

// reach makes a root that also covers a sequence number.
func (t *rows) reach(v *versions, seq event.SequenceNumber) {
	switch {
	case t.root == nil:
		t.root = t.newNode(v, seq, 0)
	case t.root.live == 0 && !t.root.has(seq): // an empty leaf is left of removed messages
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

// newNode makes a node for a sequence number. A leaf after a full one most likely gets full as
// well.
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

// edit returns the row of a live message for changing; nil if there is none.
func (t *rows) edit(v *versions, seq event.SequenceNumber) *row {
	l := t.leaf(v, seq, false)
	if l == nil || l.live>>(seq&(fan-1))&1 == 0 {
		return nil
	}
	return place{l, uint8(seq & (fan - 1))}.row()
}

// remove removes the row of a message from the tree, and nodes that are empty afterwards.
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

// setOrigin sets the number of a message in the entity where it was sent.
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

// setSource sets the entity from whose dead-letter queue a message came.
func (p place) setSource(path string) {
	if p.leaf.extra == nil {
		p.leaf.extra = new(extra)
	}
	p.leaf.extra.sources = append(p.leaf.extra.sources, deadLetterSource{p.at, path})
}

// addChange adds a property change of a message.
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
	// a snapshot may have the previous ones
	e.changes[i].blobs = append(slices.Clip(e.changes[i].blobs), b)
}
