package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Mark makes a loop write the mark of a backup, and stop until all loops have written theirs.
type Mark struct {
	engine.Internal
	Fact   event.BackupMarked
	By     *engine.Origin
	Why    event.ReasonGiven
	Over   func() bool // reports whether it is too late
	Meet   func()      // waits for the other loops
	End    event.LSN   // end of its frame; set by the loop before it answers
	Missed bool        // the command came too late, and wrote nothing
}

// mark writes the mark of a backup, hands its frame on, and waits until the others have theirs.
func (q *inboundRequests) mark(now event.Time, req *engine.Request) {
	cmd := req.Command.(*Mark)
	if cmd.Over() {
		cmd.Missed = true
		q.recorder.replies.answer(req, engine.Reply{})
		return
	}
	frames := q.recorder.frames
	q.recorder.write(now, q.recorder.part.Decide(now, &engine.Note{Fact: &cmd.Fact, Origin: cmd.By, Why: cmd.Why}))
	frames.put(frames.writer.Append)
	cmd.End = frames.end
	q.recorder.replies.answer(req, engine.Reply{})
	cmd.Meet()
}
