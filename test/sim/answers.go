package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Questions about the past (docs/decisions/0052) are put to the files that a world has left, and
// the model must give the same answers: what there was at a moment that the model remembers, how
// two such moments differ, and what became of messages.

// answersStream is where their random numbers come from.
const answersStream = 0x18_0052

// mostMoments is roughly how many moments of a world are remembered.
const mostMoments = 400

// questions is what the model knows of the past.
type questions struct {
	rng     *rand.Rand // nil: nobody asks
	moments []moment
	seen    int
}

// moment is a partition as the model had it behind a record.
type moment struct {
	p      *part
	record int
	queues map[*queue]map[string]string // the states of messages, by their address
}

// stands remembers the state of a partition, now and then.
func (w *world) stands(p *part) {
	a := &w.asks
	if a.rng == nil {
		return
	}
	if a.seen++; len(a.moments) > mostMoments && a.rng.IntN(a.seen) > mostMoments {
		return
	}
	m := moment{p: p, record: p.model.Records, queues: map[*queue]map[string]string{}}
	for _, mq := range p.model.Queues {
		q := w.queues[mq.ID]
		m.queues[q] = map[string]string{}
		for _, x := range mq.Live {
			// nobody is shown what is on its way
			if x.State != model.Transferring || subOf(x) != event.Main {
				m.queues[q][address.Of(q.path, event.SequenceNumber(x.Seq)).String()] = fmt.Sprintf("%v %v %d", states[x.State], subOf(x), x.Count)
			}
		}
	}
	a.moments = append(a.moments, m)
}

// unsaid forgets moments behind a record that did not survive.
func (w *world) unsaid(p *part, n int) {
	w.asks.moments = slices.DeleteFunc(w.asks.moments, func(m moment) bool { return m.p == p && m.record > n })
}

// asking is what it takes to ask about the past of a world that has ended.
type asking struct {
	w     *world
	store log.Store
	first map[*part]event.LSN         // of the frames that are left
	place map[*part]map[int]event.LSN // of frames, by their last record
	only  map[string]int              // how many entities have had a path
	keeps bool                        // nothing of history is gone
}

// ask asks as many random questions as the options say.
func (w *world) ask() {
	if w.asks.rng == nil {
		return
	}
	store, err := log.Open(context.Background(), root, log.Options{FS: w.disk.Clone(), ReadOnly: true, Manual: true})
	if err != nil {
		w.broken("ledger", "opened to be asked: %v", err)
	}
	defer store.Close()
	a := asking{w: w, store: store, first: map[*part]event.LSN{}, place: map[*part]map[int]event.LSN{}, only: map[string]int{}, keeps: true}
	for _, q := range w.queues {
		a.only[q.path]++
	}
	for _, p := range w.parts {
		a.places(p)
	}
	for range w.o.questions {
		switch n := w.asks.rng.IntN(10); {
		case len(w.asks.moments) > 0 && n < 4:
			a.at()
		case len(w.asks.moments) > 0 && n < 6:
			a.diff()
		default:
			a.story()
		}
		w.stats.Questions++
	}
}

// places finds where the frames of a log are, by the record that each ends with.
func (a *asking) places(p *part) {
	l, err := a.store.Open(context.Background(), log.PartitionID(p.id))
	if err != nil {
		a.w.broken("ledger", "partition %d: %v", p.id, err)
	}
	ends := map[event.LSN]int{}
	for _, f := range p.ends {
		ends[f.end] = f.upto
	}
	first, _ := l.Bounds()
	_, cut := l.(log.Bases).Base()
	a.first[p], a.place[p], a.keeps = first, map[int]event.LSN{}, a.keeps && !cut
	for rec, err := range replay.Records(context.Background(), l, first) {
		if err != nil {
			a.w.broken("ledger", "partition %d: %v", p.id, err)
		}
		if n, ok := ends[rec.Next]; ok && rec.Last {
			a.place[p][n] = rec.LSN
		}
	}
}

// put puts a question, and returns the rows of its answer.
func (a *asking) put(q ledger.Question) (rows []map[string]string, state string, err error) {
	err = ledger.New(a.store, func(l ledger.Line) error {
		fields := map[string]string{}
		for _, f := range l.Fields {
			fields[f.Name] = fmt.Sprint(f.Value())
		}
		switch l.Part {
		case ledger.Row:
			rows = append(rows, fields)
		case ledger.Answer:
			if fields["State"] != "" {
				state = fields["State"]
			}
		}
		return nil
	}).Put(context.Background(), &q)
	return rows, state, err
}

// moment picks a moment at random that is the end of a frame, with an entity whose path no other
// entity has had.
func (a *asking) moment(like *moment, of *queue) (m *moment, at ledger.Instant, q *queue, ok bool) {
	list := a.w.asks.moments
	for range 20 {
		m = &list[a.w.asks.rng.IntN(len(list))]
		lsn, there := a.place[m.p][m.record]
		if !there || like != nil && (m.p != like.p || m.queues[of] == nil) {
			continue
		}
		if q = of; q == nil {
			qs := slices.SortedFunc(maps.Keys(m.queues), func(a, b *queue) int { return a.n - b.n })
			if len(qs) == 0 {
				continue
			}
			q = qs[a.w.asks.rng.IntN(len(qs))]
		}
		if a.only[q.path] != 1 {
			continue
		}
		place := address.At(uint16(m.p.id), lsn)
		return m, ledger.Instant{Place: &place}, q, true
	}
	return nil, at, nil, false
}

// nothing reports whether a question may go without an answer: what it asks about lies before the
// beginning of history, or did not exist.
func (a *asking) nothing(err error, want int) bool {
	return errors.Is(err, ledger.ErrNothing) && (!a.keeps || want == 0)
}

// at asks what there was.
func (a *asking) at() {
	m, at, q, ok := a.moment(nil, nil)
	if !ok {
		return
	}
	want := m.queues[q]
	rows, _, err := a.put(ledger.Question{Verb: "at", At: &at, Entity: address.Address{Entity: q.path}, Messages: true})
	if a.nothing(err, len(want)) {
		return
	}
	got := map[string]string{}
	for _, r := range rows {
		got[r["Message"]] = r["State"] + " " + r["SubQueue"] + " " + r["DeliveryCount"]
	}
	if err != nil || !maps.Equal(got, want) {
		a.w.broken("ledger", "%s at %s, record %d: %v, it must be %v: %v", q.path, at, m.record, got, want, err)
	}
}

// diff asks how two moments differ.
func (a *asking) diff() {
	x, from, q, ok := a.moment(nil, nil)
	if !ok {
		return
	}
	y, to, _, ok := a.moment(x, q)
	if !ok {
		return
	}
	if x.record > y.record {
		x, y, from, to = y, x, to, from
	}
	rows, _, err := a.put(ledger.Question{Verb: "diff", At: &from, To: &to, Entity: address.Address{Entity: q.path}, Messages: true})
	if a.nothing(err, len(x.queues[q])+len(y.queues[q])) {
		return
	}
	want, got := map[string]string{}, map[string]string{}
	for name, is := range y.queues[q] {
		switch was := x.queues[q][name]; was {
		case is:
		case "":
			want[name] = "arrived"
		default:
			want[name] = "changed"
		}
	}
	for name := range x.queues[q] {
		if y.queues[q][name] == "" {
			want[name] = "gone"
		}
	}
	for _, r := range rows {
		if r["Change"] != "" { // the others are changes that people made to the entity
			got[r["Message"]] = r["Change"]
		}
	}
	if err != nil || !maps.Equal(got, want) {
		a.w.broken("ledger", "%s from %s to %s: %v, it must be %v: %v", q.path, from, to, got, want, err)
	}
}

// ends are the words for the last thing that happened to a message under a number.
var ends = map[model.Reason][]string{
	model.Completed: {"completed"}, model.ReceivedAndDeleted: {"received"}, model.Expired: {"expired"}, model.Cancelled: {"cancelled"},
	model.Activated: {"activated"}, model.Purged: {"purged"},
}

// story asks what became of a message.
func (a *asking) story() {
	q := a.w.queues[a.w.asks.rng.IntN(len(a.w.queues))]
	if a.only[q.path] != 1 || len(q.model.Gone) == 0 {
		return
	}
	seqs := slices.Sorted(maps.Keys(q.model.Gone))
	seq := seqs[a.w.asks.rng.IntN(len(seqs))]
	want, ok := ends[q.model.Gone[seq]]
	if !ok {
		return
	}
	of := address.Of(q.path, event.SequenceNumber(seq))
	rows, _, err := a.put(ledger.Question{Verb: "story", Of: of})
	if a.nothing(err, 1) {
		return
	}
	last := ""
	for _, r := range rows {
		if r["Message"] == of.String() && r["Type"] != "refused" && r["Type"] != "duplicate" {
			last = r["Type"]
		}
	}
	if err != nil || !slices.Contains(want, last) {
		a.w.broken("ledger", "the story of %s ends with %q, it must with %q: %v", of, last, want, err)
	}
}
