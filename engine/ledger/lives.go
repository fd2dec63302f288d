package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A path may have had several entities, one after the other: one was deleted and another one
// created. A question about a path covers each entity that had it in the time of the question.

// lives returns the entities that have had a path, oldest first.
func (n *names) lives(path string) ([]*life, error) {
	lives := n.byPath[fold(path)]
	if len(lives) == 0 {
		return nil, fmt.Errorf("%w of an entity %s; known entities: %s", ErrNothing, word(path), n.some())
	}
	return lives, nil
}

// livesWith returns the lives that can have a sub-queue. It is an error if none can.
func (n *names) livesWith(path string, q event.SubQueue) (list []*life, err error) {
	lives, err := n.lives(path)
	for _, e := range lives {
		if bad := e.has(q); bad != nil {
			err = bad
			continue
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		return nil, err
	}
	return list, nil
}

// at returns the entity that had a path at an instant with a time of an era; nil: none had it.
func (n *names) at(path string, i Instant, at event.Time, era uint64) *life {
	for _, e := range slices.Backward(n.byPath[fold(path)]) {
		if e.there(i, at, era) {
			return e
		}
	}
	return nil
}

// living returns the entities that existed at an instant with a time of an era, in order of path.
func (n *names) living(i Instant, at event.Time, era uint64) (list []*life) {
	for path := range n.byPath {
		if e := n.at(path, i, at, era); e != nil {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *life) int { return cmp.Compare(a.path, b.path) })
	return list
}

// there reports whether an entity existed at an instant with a time of an era.
func (e *life) there(i Instant, at event.Time, era uint64) bool {
	if in(i.Place, catalogue) {
		return e.changes[0].place.LSN <= i.Place.LSN && (e.deleted == 0 || e.gone > i.Place.LSN)
	}
	made := e.since < era || e.since == era && e.created <= at
	// A place may be before a deletion in the same millisecond.
	return made && (e.deleted == 0 || e.until > era || e.until == era && (e.deleted > at || i.Place != nil && e.deleted == at))
}

// entity returns the entity that had a path at an instant.
func (l *Ledger) entity(path string, i Instant, at event.Time, in era) (*life, error) {
	lives, err := l.names.lives(path)
	if err != nil {
		return nil, err
	}
	if e := l.names.at(path, i, at, in.number); e != nil {
		return e, nil
	}
	// The clocks of two logs may differ if one was set: the state at the place decides which
	// entities existed.
	if i.Place != nil && len(lives) == 1 {
		return lives[0], nil
	}
	var before, behind *life
	for _, e := range lives {
		if e.deleted != 0 && (e.until < in.number || e.until == in.number && e.deleted <= at) {
			before = e
		} else if behind == nil {
			behind = e
		}
	}
	path = lives[len(lives)-1].path
	switch {
	case before == nil:
		return nil, fmt.Errorf("%w of %s at %s: it was created at %s%s", ErrNothing, path, at, behind.created, forgottenNote(l.books[catalogue], at))
	case behind == nil:
		return nil, fmt.Errorf("%w of %s at %s: it was deleted at %s", ErrNothing, path, at, before.deleted)
	}
	return nil, fmt.Errorf("%w of %s at %s: it was deleted at %s, and created again at %s", ErrNothing, path, at, before.deleted, behind.created)
}

// forgottenNote returns a note that the catalogue's log may have forgotten entities of that time;
// "" if not.
func forgottenNote(b *book, at event.Time) string {
	if begins, _, gone := horizon(b); gone && at < begins.at {
		return fmt.Sprintf("; entities deleted before %s are unknown", begins.at)
	}
	return ""
}

// Story tells the life of a message: of the one with a number in each entity that has or had a
// path, or of all messages with an id.
func (l *Ledger) Story(ctx context.Context, of address.Address, messageID string) error {
	n, err := l.catalogue(ctx)
	if err != nil {
		return err
	}
	lives := []*life{nil}
	if messageID == "" {
		if lives, err = n.lives(of.Entity); err != nil {
			return err
		}
	}
	told := false
	for _, e := range lives {
		s, unknown := l.read(ctx, e, of, messageID)
		if unknown != nil {
			if err = unknown; errors.Is(err, ErrNothing) {
				continue
			}
			return err
		}
		if len(lives) > 1 {
			if err := e.tell(l); err != nil {
				return err
			}
		}
		if err := s.tell(ctx); err != nil {
			return err
		}
		told = true
	}
	if told {
		return nil
	}
	return err
}

// tell tells which of the entities of a path the answer is about.
func (e *life) tell(l *Ledger) error {
	if e.deleted == 0 {
		return l.note("about the %s created at %s", e.path, e.created)
	}
	return l.note("about the %s created at %s and deleted at %s", e.path, e.created, e.deleted)
}

// horizonsOf tells the horizons of the logs that have some entities; without entities, those of all
// logs. The catalogue's is always told: an entity that was deleted before it is unknown.
func horizonsOf(ctx context.Context, l *Ledger, of ...*life) error {
	ids := l.src.Partitions()
	if len(of) > 0 {
		ids = l.names.logs(of...)
		if !slices.Contains(ids, catalogue) {
			ids = slices.Insert(ids, 0, catalogue)
		}
	}
	for _, id := range ids {
		b, err := l.book(ctx, id)
		if err == nil {
			err = l.horizons(ctx, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
