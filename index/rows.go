package index

import "github.com/ledgerbus/ledgerbus/log/event"

const (
	chunkBits = 6
	chunkRows = 1 << chunkBits
	states    = int(Scheduled) + 1
	subQueues = int(event.TransferDeadLetter) + 1
)

// row is what is kept of a live message. Keep it at 48 bytes: there may be tens of millions.
type row struct {
	position   event.Position // of the body
	enqueuedAt event.Time
	expiresAt  event.Time
	size       uint32 // bytes of the body
	sum        uint32 // checksum of the body
	count      uint32 // failed deliveries
	lock       uint32 // slot in the lock table, 0 when not locked; while scheduled, slot in the schedule
	session    uint32 // slot in the slice's sessions, 0 when it belongs to none
	state      State
	subQueue   event.SubQueue
	marks      marks
}

// marks are what is true of a message or not.
type marks uint8

const (
	ownTTL       marks = 1 << iota // the sender gave a time to live
	changed                        // there are property changes
	wasScheduled                   // it was scheduled before it became active
)

func (m marks) has(mark marks) bool { return m&mark != 0 }

// with sets a mark, or takes it away.
func (m marks) with(mark marks, set bool) marks {
	if set {
		return m | mark
	}
	return m &^ mark
}

// deliverable tells whether a receiver of the main queue may get the message.
func (r *row) deliverable() bool { return r.state == Active && r.subQueue == event.Main }

// locked tells whether the message is locked in the main queue.
func (r *row) locked() bool {
	return r.subQueue == event.Main && (r.state == Locked || r.state == DeferredLocked)
}

// chunk holds the rows of chunkRows consecutive sequence numbers and is dropped with the last live one.
type chunk struct {
	live    int
	origins *[chunkRows]event.SequenceNumber // numbers the messages had where they were sent to; nil: none of them came from elsewhere
	rows    [chunkRows]row
}

// rows are the live messages of a slice by sequence number, in chunks.
type rows struct {
	chunks map[uint64]*chunk
	recent *chunk // the chunk asked for last
	at     uint64 // its number
}

func newRows() rows { return rows{chunks: map[uint64]*chunk{}} }

// find returns the row of a live message, or nil.
func (t *rows) find(seq event.SequenceNumber) *row {
	n := uint64(seq) >> chunkBits
	c := t.recent
	if c == nil || t.at != n {
		if c = t.chunks[n]; c == nil {
			return nil
		}
		t.recent, t.at = c, n
	}
	if r := &c.rows[uint64(seq)&(chunkRows-1)]; r.state != Gone {
		return r
	}
	return nil
}

// insert makes the row of a new live message.
func (t *rows) insert(seq event.SequenceNumber) *row {
	n := uint64(seq) >> chunkBits
	c := t.recent
	if c == nil || t.at != n {
		if c = t.chunks[n]; c == nil {
			c = new(chunk)
			t.chunks[n] = c
		}
		t.recent, t.at = c, n
	}
	c.live++
	return &c.rows[uint64(seq)&(chunkRows-1)]
}

// removed gives the memory of a row back that was cleared.
func (t *rows) removed(seq event.SequenceNumber) {
	n := uint64(seq) >> chunkBits
	c := t.chunks[n]
	if c.live--; c.live == 0 {
		delete(t.chunks, n)
		t.recent = nil
	}
}

// setOrigin notes the number a message had where it was sent to.
func (t *rows) setOrigin(seq, origin event.SequenceNumber) {
	c := t.chunks[uint64(seq)>>chunkBits]
	if c.origins == nil {
		c.origins = new([chunkRows]event.SequenceNumber)
	}
	c.origins[uint64(seq)&(chunkRows-1)] = origin
}

// origin is the number a message had where it was sent to; 0 when that was here.
func (t *rows) origin(seq event.SequenceNumber) event.SequenceNumber {
	if c := t.chunks[uint64(seq)>>chunkBits]; c != nil && c.origins != nil {
		return c.origins[uint64(seq)&(chunkRows-1)]
	}
	return 0
}
