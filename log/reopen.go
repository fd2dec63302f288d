package log

import (
	"context"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/format"
)

// Reopen implements [Store]. It is the recovery of a start, of one partition (docs/decisions/0044):
// only what stands in the files counts, and nothing that this process remembers of the log, except
// how far it was synced: if the files hold less than that, or, of a log that this process has
// closed in order, end elsewhere, the partition is refused (docs/decisions/0069).
func (s *store) Reopen(ctx context.Context, id PartitionID) (Partition, error) {
	s.reopening.Lock()
	defer s.reopening.Unlock()
	switch {
	case s.opts.ReadOnly:
		return nil, ErrReadOnly
	case int(id) >= len(s.parts):
		return nil, fmt.Errorf("log: no partition %d", id)
	}
	old := s.part(id)
	old.sealing.end()
	old.baseManager.end()
	old.scrubState.end()
	clean, err := old.requiredEnd()
	if err != nil {
		return nil, err
	}
	p := s.recoverPartition(ctx, id, clean, promisedMark(old, clean))
	if p.err != nil {
		return nil, p.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.parts[id].Store(p)
	old.files.closeAll()
	return p, nil
}

// requiredEnd is where the log of a partition that nobody writes to must end; nil: wherever its good
// frames do. It refuses one that is written to.
func (p *partition) requiredEnd() (*format.Mark, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch {
	case p.writer != nil && !p.writer.released.Load():
		return nil, fmt.Errorf("log: partition %d has a writer", p.id)
	case p.err != nil: // nobody has written to it since the directory was opened
		return p.store.cleanMark(p.id), nil
	case p.clean && p.poison == nil:
		end := p.end
		return &end, nil
	}
	return nil, nil
}

// promisedMark is how far this process knows the log of a partition to be durable; LSN 0: it knows
// nothing. What is below may have been acknowledged. It is what the last writer has synced, in
// files that are no sealed ones yet, or where it has left the log.
func promisedMark(p *partition, clean *format.Mark) format.Mark {
	p.mu.RLock()
	w, mark := p.writer, p.owed
	if clean != nil && p.err == nil {
		mark = *clean
	}
	p.mu.RUnlock()
	if w != nil {
		w.mu.Lock()
		mark = w.synced
		w.mu.Unlock()
	}
	if mark.LSN <= format.FirstLSN {
		return format.Mark{}
	}
	return mark
}
