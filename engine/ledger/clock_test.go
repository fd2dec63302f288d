package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// An instant that occurred twice, because a clock was set back, is answered for both times; a place
// identifies one of them.
func TestInstantThatWasTwice(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	defer dir.Close()
	_, w := dir.Lead(0)
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	end := dir.Append(w, 1000, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}})
	add := func(at event.Time, ev event.Event) (lsn event.LSN) {
		lsn, end = end, dir.Append(w, at, ev)
		return lsn
	}
	send := func(at event.Time, n event.SequenceNumber) event.LSN {
		return add(at, &event.MessageEnqueued{Envelope: own, Sequence: n, MessageID: []byte("m"), EnqueuedAt: at})
	}
	first := send(2000, 1)
	second := send(9000, 2)
	set := add(5000, &event.ClockSet{Number: 1, Basis: event.BasisWall, From: 10_000, To: 5000, Wall: 5000})
	last := send(8000, 3)
	ask := func(question func(*Ledger) error) (active []string, err error) {
		var lines []Line
		err = question(New(dir, keep(&lines)))
		return column(lines, "Active"), err
	}
	for at, want := range map[event.Time]string{3000: "[1]", 6000: "[1 2]", 8000: "[1 3]", 9500: "[2 3]", 20_000: "[3]"} {
		if got, err := ask(func(l *Ledger) error { return l.At(t.Context(), Instant{At: at}, "orders", false) }); err != nil || fmt.Sprint(got) != want {
			t.Errorf("at %s: %s, %v, want %s", at, got, err, want)
		}
	}
	diff := func(from, to Instant) string {
		var told []string
		err := New(dir, func(l Line) error {
			switch l.Part {
			case Answer:
				told = append(told, strings.Fields(l.Text)[0]+" "+fmt.Sprintf("%s %s %s", valueOf(l.Fields, "FromPlace"), valueOf(l.Fields, "ToPlace"), valueOf(l.Fields, "Arrived")))
			case Row:
				if valueOf(l.Fields, "Count") == "active" {
					told = append(told, valueOf(l.Fields, "Before")+"→"+valueOf(l.Fields, "After"))
				}
			}
			return nil
		}).Diff(t.Context(), from, to, "orders", false)
		return fmt.Sprintf("%s %v", strings.Join(told, "; "), err)
	}
	at := func(lsn event.LSN) Instant {
		a := address.At(log.PartitionID(0), lsn)
		return Instant{Place: &a}
	}
	for _, c := range []struct {
		from, to Instant
		want     string
	}{
		{Instant{At: 6000}, Instant{At: 20_000}, fmt.Sprintf("from @0/%d  ; orders:   2; 1→3; from @0/%d  ; orders:   1; 2→3 <nil>", first, set)},
		{Instant{At: 1500}, Instant{At: 8000}, fmt.Sprintf("from  @0/%d ; orders:   1; 0→1; from  @0/%d ; orders:   3; 0→3 <nil>", first, last)},
		// 9000 of the first era comes before 6000 of the second
		{Instant{At: 9000}, Instant{At: 6000}, fmt.Sprintf("from @0/%d @0/%d  <nil>", second, set)},
		{Instant{At: 6000}, Instant{At: 8000}, fmt.Sprintf("from @0/%[1]d @0/%[1]d ; from @0/%[1]d @0/%[3]d ; orders:   2; 1→3; from @0/%[2]d @0/%[3]d ; orders:   1; 2→3 <nil>", first, set, last)},
		{at(first), Instant{At: 20_000}, "from   ; orders:   2; 1→3 <nil>"},
		{Instant{At: 20_000}, Instant{At: 3000}, " invalid question: " + event.Time(20_000).String() + " is after " + event.Time(3000).String()},
	} {
		if got := diff(c.from, c.to); got != c.want {
			t.Errorf("diff %s %s:\n%s\nwant\n%s", c.from, c.to, got, c.want)
		}
	}
	for _, lsn := range []event.LSN{first, second, set, last} {
		want := map[event.LSN]string{first: "[1]", second: "[2]", set: "[2]", last: "[3]"}[lsn]
		if got, err := ask(func(l *Ledger) error { return l.At(t.Context(), at(lsn), "orders", false) }); err != nil || fmt.Sprint(got) != want {
			t.Errorf("at %d: %s, %v, want %s", lsn, got, err, want)
		}
	}
}
