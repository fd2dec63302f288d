package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// asked puts a question and returns the texts of its rows by log, its notes, and the places to
// continue from.
func (m *model) asked(memory *Memory, q Question) (rows [2][]string, notes []string, next string, err error) {
	l := New(m.dir, func(l Line) error {
		switch l.Part {
		case Row:
			for _, f := range l.Fields {
				if f.Name == "Place" {
					p := fmt.Sprint(f.Value())[1] - '0'
					rows[p] = append(rows[p], l.Text)
				}
			}
		case Note:
			notes = append(notes, l.Text)
		case Answer:
			next = valueOf(l.Fields, NextField)
		}
		return nil
	})
	l.Remember(memory)
	return rows, notes, next, l.Put(m.t.Context(), &q)
}

func valueOf(fields print.Object, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return fmt.Sprint(f.Value())
		}
	}
	return ""
}

// A program that asks again and again for new events is told each once, in the order of each log,
// while both logs grow. That also holds for answers that need the entities and origins that are
// remembered from one question to the next.
func TestNewer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		m := newModel(t, seed)
		questions := []Question{{Verb: "events"}, {Verb: "events", Entity: address.Address{Entity: "bills"}}, {Verb: "events", Where: "type IN ('sent', 'dead')"}, {Verb: "events", Types: []string{"locked"}},
			{Verb: "events", Entity: address.Address{Entity: "bills", SubQueue: event.DeadLetter}}}
		after := make([]string, len(questions))
		got := make([][2][]string, len(questions))
		var memory Memory
		look := func() {
			for i, q := range questions {
				if q.After = after[i]; q.After == "" {
					q.After = FromBeginning
				}
				rows, notes, next, err := m.asked(&memory, q)
				if err != nil || next == "" || len(notes) > 0 {
					t.Fatalf("seed %d: %q %q %v", seed, next, notes, err)
				}
				for p := range rows {
					got[i][p] = append(got[i][p], rows[p]...)
				}
				after[i] = next
			}
		}
		look()
		for range 10 {
			for range m.rng.IntN(20) {
				m.step()
			}
			if m.rng.IntN(4) == 0 {
				m.dir.Append(m.writer[0], m.now, &event.EntityUpdated{Envelope: event.Envelope{Slice: event.Slice{Entity: 2}}})
			}
			look()
		}
		for i, q := range questions {
			want, _, _, err := m.asked(nil, q)
			if err != nil || len(want[0])+len(want[1]) < 20 {
				t.Fatalf("seed %d: %v, %d events", seed, err, len(want))
			}
			for p := range want {
				if !slices.Equal(got[i][p], want[p]) {
					t.Errorf("seed %d: question %d: of log %d\n%s\nwant\n%s", seed, i, p, strings.Join(got[i][p], "\n"), strings.Join(want[p], "\n"))
				}
			}
		}
	}
}

// A place after the end belongs to another log. An entity that does not exist yet can be waited
// for; an invalid question is refused.
func TestNewerBegins(t *testing.T) {
	t.Parallel()
	m := newModel(t, 3)
	rows, _, next, err := m.asked(nil, Question{Verb: "events", After: FromNow})
	if err != nil || len(rows[0])+len(rows[1]) > 0 || !strings.HasPrefix(next, "@0/") || !strings.Contains(next, ",@1/") {
		t.Fatalf("%d, %d rows, %q, %v", len(rows[0]), len(rows[1]), next, err)
	}
	if _, notes, next, err := m.asked(nil, Question{Verb: "events", After: FromNow, Entity: address.Address{Entity: "later"}}); err != nil || next == "" || len(notes) != 1 || !strings.Contains(notes[0], "later") {
		t.Errorf(`%q, %q, %v; want next != "" && len(notes) == 1 && strings.Contains(notes[0], "later")`, notes, next, err)
	}
	for _, c := range []struct {
		q    Question
		kind error
	}{
		{Question{After: "@0/999999999,@1/8"}, ErrNothing},
		{Question{After: "@2/8"}, ErrQuestion},
		{Question{After: "orders"}, ErrQuestion},
		{Question{After: "noon"}, ErrQuestion},
		{Question{After: FromNow, Where: "type IN"}, ErrQuestion},
		{Question{After: FromNow, Types: []string{"dances"}}, ErrQuestion},
		{Question{After: FromNow, Until: &Instant{At: 1}}, ErrQuestion},
	} {
		c.q.Verb = "events"
		if _, _, _, err := m.asked(nil, c.q); !errors.Is(err, c.kind) {
			t.Errorf("%+v: %v; want errors.Is(err, c.kind)", c.q, err)
		}
	}
	var ends map[log.PartitionID]event.LSN
	if ends, err = parsePlaces(next, 2); err != nil || places(ends) != next {
		t.Errorf("%v, %v; want places(ends) == next", ends, err)
	}
}

// lacking is a source that has a log that cannot be read.
type lacking struct {
	Source
	id  log.PartitionID
	err error
}

func (s *lacking) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	if id == s.id && s.err != nil {
		return nil, s.err
	}
	return s.Source.Open(ctx, id)
}

// An answer that has nothing from a log because it cannot be read says so and ends with the reason.
// A follower is told when the log can be read again, and that its earlier events are not told.
func TestLogThatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	rotten := errors.New("rotten")
	src := &lacking{m.dir, 1, rotten}
	put := func(q Question) (rows int, notes []string, next string, err error) {
		l := New(src, func(l Line) error {
			switch l.Part {
			case Row:
				rows++
			case Note:
				notes = append(notes, l.Text)
			case Answer:
				next = valueOf(l.Fields, NextField)
			}
			return nil
		})
		return rows, notes, next, l.Put(t.Context(), &q)
	}
	const note = `partition 1 cannot be read and is missing from this answer: rotten`
	for _, q := range []Question{{Verb: "events"}, {Verb: "events", Types: []string{"dead"}}, {Verb: "audit"}, {Verb: "story", MessageID: "nowhere"}} {
		if _, notes, _, err := put(q); !errors.Is(err, rotten) || errors.Is(err, ErrNothing) || !slices.Equal(notes, []string{note}) {
			t.Errorf("%+v: %q, %v; want the note and the reason", q, notes, err)
		}
	}
	rows, notes, next, err := put(Question{Verb: "events", After: FromBeginning})
	if err != nil || rows == 0 || !slices.Equal(notes, []string{note}) || strings.Contains(next, "@1/") {
		t.Fatalf("%d rows, %q, %q, %v; want the note, and no place in log 1", rows, notes, next, err)
	}
	src.err = nil
	if _, notes, next, err = put(Question{Verb: "events", After: next}); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "partition 1 can be read again; its events before @1/") ||
		!strings.Contains(next, "@1/") {
		t.Errorf("%q, %q, %v; want a note that log 1 can be read again", notes, next, err)
	}
}
