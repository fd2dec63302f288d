package engine

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// sends decides a send from an origin, and returns its number in the events and whether they define
// it.
func sends(t *testing.T, p *Partition, o *Origin) (out Outcome, id event.OriginID, defined bool) {
	t.Helper()
	out = p.Decide(1, &Send{Slice: testSlice, Origin: o, Messages: []Message{{ID: []byte("m"), Body: []byte("b")}}})
	if out.Reply.Err != nil {
		t.Fatal(out.Reply.Err)
	}
	if def, ok := out.Events[0].(*event.OriginDefined); ok {
		defined = true
		if want := clipOrigin(o); def.Origin != want {
			t.Fatalf("defined is %.60v, want %.60v", def.Origin, want)
		}
	}
	return out, out.Events[len(out.Events)-1].Common().Origin, defined
}

func adopt(p *Partition, out *Outcome) {
	p.Adopt(out)
	for _, ev := range out.Events {
		p.Apply(1, ev)
	}
}

func oneQueue() *Partition {
	p := NewPartition(0, 1, index.New())
	p.Configure(&Entity{ID: 1, Kind: event.Queue, Path: "orders", Properties: testQueue()})
	return p
}

// The numbers of origins are a cache, bounded by its bytes: texts of peers do not stay for ever.
func TestOriginsAreBounded(t *testing.T) {
	t.Parallel()
	p := oneQueue()
	for n := range 3000 {
		o := &Origin{Connection: uint64(n), Link: strings.Repeat("l", 60_000)}
		out, id, _ := sends(t, p, o)
		adopt(p, &out)
		if _, again, defined := sends(t, p, o); again != id || defined {
			t.Fatalf("origin %d is %d and %d, defined again: %t", n, id, again, defined)
		}
		total := 0
		for o := range p.origins.numbers {
			total += bytesOf(o)
		}
		if total != p.origins.bytes || total > maxOriginBytes {
			t.Fatalf("after %d: %d bytes, counted as %d", n, total, p.origins.bytes)
		}
	}
}

// Two decisions each name an origin, both with the number that comes next, before either is
// applied. Only one of them can become part of the log; its origin has the number from then on, and
// the origin of the other does not.
func TestDecisionsThatNameOrigins(t *testing.T) {
	t.Parallel()
	p := oneQueue()
	first, second := &Origin{Connection: 1}, &Origin{Connection: 2}
	sends(t, p, first)
	out, id, _ := sends(t, p, second)
	adopt(p, &out)
	if _, again, defined := sends(t, p, second); again != id || defined {
		t.Errorf("the origin in the log is %d, was %d, defined again: %t", again, id, defined)
	}
	out, other, defined := sends(t, p, first)
	if other == id || !defined {
		t.Errorf("the origin that is not in the log has number %d, the other one %d; defined: %t", other, id, defined)
	}
	adopt(p, &out)
	if _, again, defined := sends(t, p, first); again != other || defined {
		t.Errorf("the origin is %d, was %d, defined again: %t", again, other, defined)
	}
}

// A partition learns no number from an event that none of its decisions led to, whatever it decided
// last.
func TestForeignDefinitions(t *testing.T) {
	t.Parallel()
	p := oneQueue()
	mine := &Origin{Connection: 1}
	_, id, _ := sends(t, p, mine)
	p.Apply(1, &event.OriginDefined{ID: id, Origin: event.Origin{Connection: 2}})
	if _, again, defined := sends(t, p, mine); again == id || !defined {
		t.Errorf("the number %d is another origin's; it is used, defined: %t", again, defined)
	}
}

// An outcome that was overtaken, by a decision, by an event or by having been adopted already, is
// not adopted.
func TestOvertakenOutcomes(t *testing.T) {
	t.Parallel()
	for name, overtake := range map[string]func(*Partition, *Outcome){
		"a decision": func(p *Partition, _ *Outcome) { p.Decide(1, &Tick{}) },
		"an event":   func(p *Partition, _ *Outcome) { p.Apply(1, &event.OriginDefined{ID: p.index.NextOrigin()}) },
		"itself":     func(p *Partition, out *Outcome) { p.Adopt(out) },
	} {
		p := oneQueue()
		out, _, _ := sends(t, p, &Origin{Connection: 1})
		overtake(p, &out)
		known := len(p.origins.numbers)
		func() {
			defer func() {
				if recover() == nil || len(p.origins.numbers) != known {
					t.Errorf("overtaken by %s, and adopted", name)
				}
			}()
			p.Adopt(&out)
		}()
	}
}

// The most frequent commands are decided without allocating, except for deliveries, which are
// allocated 64 at a time.
func TestUsualDecisionsDoNotAllocate(t *testing.T) {
	p := oneQueue()
	out, _, _ := sends(t, p, nil)
	adopt(p, &out)
	out, _, _ = sends(t, p, nil)
	adopt(p, &out)
	token := event.LockToken{1}
	receive := &Receive{Slice: testSlice, Token: token}
	out = p.Decide(1, receive)
	adopt(p, &out)
	for _, cmd := range []Command{
		&Send{Slice: testSlice, Messages: []Message{{ID: []byte("m"), Body: []byte("b")}}},
		receive,
		&Settle{Slice: testSlice, Token: token, Outcome: Complete},
		&Settle{Slice: testSlice, Token: token, Outcome: Abandon},
	} {
		if n := testing.AllocsPerRun(1000, func() {
			if out := p.Decide(2, cmd); out.Reply.Err != nil || len(out.Events) != 1 {
				t.Fatalf("%T: %v, %d events", cmd, out.Reply.Err, len(out.Events))
			}
		}); n != 0 {
			t.Errorf("%T: %v allocations", cmd, n)
		}
	}
}
