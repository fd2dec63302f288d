package present

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Sessions returns a page of the sessions of an entity, by id: at most top of them, up to
// [rows.Max]; 0 is rows.Max. It begins after a session id, which need not exist; nil: at the
// beginning.
func (n *Namespace) Sessions(ctx context.Context, path string, top int, after *string) (rows.Sessions, error) {
	top, err := topOf(top)
	if err != nil {
		return rows.Sessions{}, err
	}
	e, err := n.find(ctx, path)
	if err != nil {
		return rows.Sessions{}, err
	}
	list := rows.Sessions{At: n.src.Now().Std().UTC(), Entity: e.Path, Sessions: []rows.Session{}, NotRecorded: n.unrecorded("holder")}
	var later []index.Session // the first ones of each partition; a session is in one of them
	for number, host := range e.Hosts {
		err := n.snapshot(ctx, int(host), func(s *index.Snapshot) {
			// one more says whether there is a next page
			some, total := s.FirstSessions(event.Slice{Entity: e.ID, Partition: uint8(number)}, after, top+1)
			later, list.Total = append(later, some...), list.Total+total
		})
		switch {
		case errors.Is(err, ErrAway):
			if !slices.Contains(list.Missing, int(host)) {
				list.Missing = append(list.Missing, int(host))
			}
		case err != nil:
			return rows.Sessions{}, err
		}
	}
	slices.SortFunc(later, func(a, b index.Session) int { return cmp.Compare(a.ID, b.ID) })
	if len(later) > top {
		later = later[:top]
		list.Next = &later[top-1].ID
	}
	for i := range later {
		list.Sessions = append(list.Sessions, sessionOf(&later[i]))
	}
	return list, nil
}

// sessionOf returns a session as answers show it.
func sessionOf(s *index.Session) rows.Session {
	r := rows.Session{ID: s.ID, Active: s.Active, Locked: s.Locked}
	if s.Held {
		r.LockedUntil = timeOf(s.Until)
	}
	if s.Set {
		r.StateSize, r.StateSetAt = int(s.State.Size), timeOf(s.SetAt)
	}
	return r
}

// snapshot calls read with the state of a partition, which it releases afterwards.
func (n *Namespace) snapshot(ctx context.Context, partition int, read func(*index.Snapshot)) error {
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	s, err := n.src.Snapshot(short, partition)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return ErrAway
		}
		return err
	}
	defer s.Close()
	read(s)
	return nil
}
