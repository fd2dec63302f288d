package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxBatchDelete is how many messages one call deletes at most (semantics.md 14.3).
const maxBatchDelete = 4000

// batchDelete removes active messages, oldest first, and leaves all others alone. In a session, where there may be many others, it
// goes on in steps, each a record of its own.
func (p *Partition) batchDelete(now event.Time, cmd *BatchDelete) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if err := receivable(e); err != nil {
		if cmd.deleted > 0 { // disabled between two steps: what is gone is gone, and the caller has to know
			out := p.done(log.Ordered)
			out.Reply.Answer = Deleted(cmd.deleted)
			return out
		}
		return p.refused(err)
	}
	if cmd.Before == 0 {
		cmd.Before = now // for all steps: what is sent between them stays
	}
	walk := index.Walk{From: cmd.next, Left: lookStep}
	messages := p.index.BrowseActive(cmd.Slice, cmd.SubQueue)
	if cmd.HasSession {
		messages = p.index.BrowseSession(cmd.Slice, cmd.SubQueue, cmd.SessionID, &walk)
	}
	limit := min(cmd.Count, maxBatchDelete) - cmd.deleted
	var doomed []event.SequenceNumber
	for m := range messages {
		if len(doomed) >= limit || m.EnqueuedAt >= cmd.Before { // times grow with the numbers
			break
		}
		if m.State == index.Active {
			doomed = append(doomed, m.Sequence)
		}
	}
	cmd.next = walk.From
	cmd.deleted += len(doomed)
	if len(doomed) > 0 {
		ev := p.events.New(event.KindMessagesBatchDeleted).(*event.MessagesBatchDeleted)
		ev.Envelope, ev.Before, ev.Sequences = envelope(cmd.Slice, p.origin(cmd.Origin)), cmd.Before, doomed
		p.out = append(p.out, ev)
	}
	out := p.done(level(p.out))
	out.Reply.Answer, out.Looks, out.Again = Deleted(cmd.deleted), lookStep-walk.Left+len(doomed), walk.More && len(doomed) < limit
	return out
}
