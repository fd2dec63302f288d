package log

import (
	"context"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/format"
)

// Reopen implements [Store]. It is the recovery of a start for one partition (docs/decisions/0044).
// Only the files count. Of what this process remembers of the log it uses only how far the log was
// synced. If the files hold less than that, or if a log that this process has closed in order ends
// elsewhere, the partition is refused (docs/decisions/0069).
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

// requiredEnd returns where the log of a partition without a writer must end; nil: wherever its
// good frames end. It refuses a partition with a writer.
func (p *partition) requiredEnd() (*format.Mark, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch {
	case p.writer != nil && !p.writer.released.Load():
		return nil, fmt.Errorf("log: partition %d has a writer", p.id)
	case p.err != nil: // not written since the directory was opened
		return p.store.cleanMark(p.id), nil
	case p.clean && p.poison == nil:
		end := p.end
		return &end, nil
	}
	return nil, nil
}

// promisedMark returns how far this process knows the log of a partition to be durable; LSN 0:
// unknown. Everything below may have been acknowledged. The mark is what the last writer has
// synced, in files that are not sealed yet, or where it has left the log.
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
