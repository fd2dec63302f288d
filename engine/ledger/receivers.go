package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// receivers returns a sentence about the receivers of a slice, or the time since which it has none.
func (l *Ledger) receivers(ctx context.Context, of event.Slice) (string, error) {
	id, ok := l.names.host(of)
	if !ok {
		return "its entity is unknown", nil
	}
	b, err := l.book(ctx, id)
	if err != nil {
		return "", err
	}
	var there map[event.OriginID]bool
	// when the run began, and when the last receiver ended
	began, last := event.Time(0), event.Time(0)
	ever := false
	for rec, err := range replay.Found(ctx, b, log.Search{Kinds: []event.Kind{event.KindLinkOpened, event.KindLinkClosed, event.KindRunStarted}}) {
		if err != nil {
			return "", err
		}
		for _, ev := range rec.Events {
			b.see(ev)
			switch ev := ev.(type) {
			case *event.RunStarted: // all links of the previous run have ended
				if len(there) > 0 {
					last = rec.At
				}
				there, began = nil, rec.At
			case *event.LinkOpened:
				if ev.Slice == of && (ev.Role == event.Receiver || ev.Role == event.DeletingReceiver) && ev.SubQueue == event.Main {
					if there == nil {
						there = make(map[event.OriginID]bool)
					}
					there[ev.Origin], ever = true, true
				}
			case *event.LinkClosed:
				if there[ev.Origin] {
					delete(there, ev.Origin)
					last = rec.At
				}
			}
		}
	}
	path, since := l.names.path(of.Entity), sinceThen(b)
	switch {
	case len(there) > 0:
		return many(len(there), "receiver of "+path+" is attached but has not taken it", "receivers of "+path+" are attached but have not taken it"), nil
	case began == 0 && since != "": // links that were opened before may be open
		return fmt.Sprintf("it is unknown whether %s has a receiver: no link to it was opened%s", path, since), nil
	case ever:
		return fmt.Sprintf("the last receiver of %s left at %s", path, last), nil
	case began != 0:
		return fmt.Sprintf("history shows no receiver of %s%s", path, since), nil
	}
	return "history shows no links", nil
}

// waitsFor returns what keeps a waiting message from a receiver: the session that it is in and, if
// it has not been received, the receivers of its slice.
func (s *story) waitsFor(ctx context.Context, f fate) (string, error) {
	var parts []string
	if id := s.session(f.number); id != nil {
		holder, err := s.holder(ctx, f.number.slice, *id)
		if err != nil {
			return "", err
		}
		parts = append(parts, "it is in session "+word(*id)+", "+holder)
	}
	if f.tries == 0 {
		receivers, err := s.l.receivers(ctx, f.number.slice)
		if err != nil {
			return "", err
		}
		parts = append(parts, receivers)
	}
	if len(parts) == 0 {
		return "", nil
	}
	return ": " + strings.Join(parts, "; "), nil
}

// session returns the session of a message under a number; nil: none, or history no longer has its
// sending. A scheduled message keeps its session when it is enqueued under another number.
func (s *story) session(of node) (id *string) {
	for i := range s.moments {
		m := &s.moments[i]
		scheduled := m.verb == "scheduled" || m.row != nil && m.row.State == index.Scheduled
		if m.session != nil && (m.node == of || m.slice == of.slice && scheduled) {
			id = m.session
		}
	}
	return id
}

// holder returns a sentence about the holder of a session of a slice, or the time since which it
// has none.
func (s *story) holder(ctx context.Context, of event.Slice, id string) (string, error) {
	host, ok := s.l.names.host(of)
	if !ok {
		return "of an unknown entity", nil
	}
	b, err := s.l.book(ctx, host)
	if err != nil {
		return "", err
	}
	said := "which no receiver has accepted" + sinceThen(b)
	if at, _, gone := horizon(b); gone {
		begin, err := s.begin(ctx, b)
		if err != nil {
			return "", err
		}
		if held, _ := begin.Session(of, []byte(id)); held.Held {
			said = fmt.Sprintf("which a receiver has held since before %s", at.at)
		}
	}
	for rec, err := range replay.Found(ctx, b, log.Search{Kinds: []event.Kind{event.KindSessionAccepted, event.KindSessionReleased}}) {
		if err != nil {
			return "", err
		}
		for _, ev := range rec.Events {
			b.see(ev)
			switch ev := ev.(type) {
			case *event.SessionAccepted:
				if ev.Slice == of && string(ev.SessionID) == id {
					said = fmt.Sprintf("which a receiver has held since %s", rec.At)
				}
			case *event.SessionReleased:
				if ev.Slice == of && string(ev.SessionID) == id {
					said = fmt.Sprintf("which no receiver has held since %s", rec.At)
				}
			}
		}
	}
	return said, nil
}

// repeats returns how often the id of the message came again and was dropped.
func (s *story) repeats() (n int) {
	for i := range s.moments {
		if s.moments[i].verb == "duplicate" {
			n++
		}
	}
	return n
}
