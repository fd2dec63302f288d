package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxBatchDelete is the most messages that one call deletes (semantics.md 14.3).
const maxBatchDelete = 4000

// batchDelete removes active messages, oldest first, and leaves all others alone. In a session,
// where there may be many others, it works in steps, each a record of its own.
func batchDelete(d *decision, cmd *BatchDelete) *Error {
	s, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if err := s.receivable(); err != nil {
		// disabled between two steps: messages are already deleted, and the caller must learn that
		if cmd.deleted > 0 {
			d.reply.Answer = Deleted(cmd.deleted)
			return nil
		}
		return err
	}
	rest := *cmd // what remains of the command
	if rest.Before == 0 {
		rest.Before = d.now // the same for all steps: messages sent between them stay
	}
	walk := index.Walk{From: cmd.next, Left: lookStep}
	limit := min(cmd.Count, maxBatchDelete) - cmd.deleted
	doomed := s.oldestActive(&rest, limit, &walk)
	rest.next = walk.From
	rest.deleted += len(doomed)
	if len(doomed) > 0 {
		origin := s.origin(cmd.Origin)
		ev := add[*event.MessagesBatchDeleted](d, event.KindMessagesBatchDeleted)
		ev.Envelope, ev.Before, ev.Sequences = s.envelope(origin), rest.Before, doomed
		// clients delete messages as part of their work, each request with a tracking id
		if cmd.Why.Reason != "" {
			s.because(cmd.Why, ev.Envelope)
		}
		rest.Why = event.ReasonGiven{} // written once
	}
	d.reply.Answer, d.looks = Deleted(rest.deleted), lookStep-walk.Left+len(doomed)
	if walk.More && len(doomed) < limit {
		d.goOn(&rest)
	}
	return nil
}

// oldestActive returns the next active messages that are old enough, at most limit of them.
func (s *slice) oldestActive(cmd *BatchDelete, limit int, walk *index.Walk) (doomed []event.SequenceNumber) {
	messages := s.index.BrowseActive(s.id, cmd.SubQueue)
	if cmd.HasSession {
		messages = s.index.BrowseSession(s.id, cmd.SubQueue, cmd.SessionID, walk)
	}
	for m := range messages {
		if len(doomed) >= limit || m.EnqueuedAt >= cmd.Before { // times grow with the numbers
			break
		}
		if m.State == index.Active {
			doomed = append(doomed, m.Sequence)
		}
	}
	return doomed
}
