package host

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receiver is what the loop knows of one that is attached. It dies with the process.
type receiver struct {
	*engine.Receiver
	line      *line           // nil: it waits for a session, or is gone
	assigned  uint32          // deliveries decided since Attach, modulo 2^32
	limit     uint32          // see Flow.Limit
	session   event.LockToken // of the session it holds
	sessionID []byte
	wait      *wait // for a session
	draining  bool  // its credit is given up once its line has nothing more to deliver
	drainTo   uint32
	shown     event.LSN            // address of what must be durable before it is told anything more
	pulls     bool                 // it has asked for messages of a main queue: expired ones are looked for
	next      event.SequenceNumber // where a receiver that browses goes on
}

func (r *receiver) credit() int32 { return int32(r.limit - r.assigned) }

type lineKey struct {
	slice    event.Slice
	subQueue event.SubQueue
}

// line is where receivers with credit wait for the messages of one sub-queue, or the one receiver of a session for those of
// the session; a receiver that browses has one to itself. Credit is served in the order it arrived, over all links (wire-protocol.md 4.3).
type line struct {
	key      lineKey
	attached int
	grants   []grant
	marked   bool // is among the loop's lines to serve
	draining []*receiver
	holder   *receiver // of the session the line is for; nil for a sub-queue
}

type grant struct {
	receiver *receiver
	credit   int32
}

// set changes a receiver's credit: more of it waits behind the others, less is taken from its newest grants.
func (ln *line) set(r *receiver, credit int32) {
	more := credit - r.credit()
	r.limit = r.assigned + uint32(credit)
	if more > 0 {
		ln.grants = append(ln.grants, grant{r, more})
	}
	for i := len(ln.grants) - 1; i >= 0 && more < 0; i-- {
		if g := &ln.grants[i]; g.receiver == r {
			n := min(g.credit, -more)
			g.credit -= n
			more += n
		}
	}
	ln.trim()
}

// trim drops used-up grants.
func (ln *line) trim() {
	kept := ln.grants[:0]
	for _, g := range ln.grants {
		if g.credit > 0 {
			kept = append(kept, g)
		}
	}
	clear(ln.grants[len(kept):])
	ln.grants = kept
}
