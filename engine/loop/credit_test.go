package loop

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
)

// Every step of a credit that ports take from at any time. A line is what a port does, and after
// the equals sign the result: what is left after a flow, whether there was credit to take ("again":
// the port has to answer the drain once more), and how far the drain is.
func TestCreditSteps(t *testing.T) {
	t.Parallel()
	for _, c := range creditScripts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// that many flows came before
			for _, flows := range []uint32{0, flowMask - 1, flowMask} {
				var shared credit
				shared.word.Store(creditState{flows: flows}.word())
				ports := map[string]*creditPort{"a": {credit: &shared, flows: flows}, "b": {credit: &shared, flows: flows}}
				for _, line := range strings.Split(strings.TrimSpace(c.script), "\n") {
					call, want, _ := strings.Cut(strings.TrimSpace(line), " = ")
					words := strings.Fields(call)
					if got := ports[words[0]].call(t, words[1:]); got != want {
						t.Fatalf("after %d flows, %s: %s", flows, strings.TrimSpace(line), got)
					}
				}
			}
		})
	}
}

var creditScripts = []struct{ name, script string }{
	{"nothing before the first flow", `
			a take = none`},
	{"as many as the flow says, over all ports", `
			a flow 3 = 3
			a take = one
			b flow 3 = 2
			b take = one
			a take = one
			a take = none
			b take = none`},
	{"a flow counts once, whoever comes first", `
			b flow 5 = 5
			b flow 7 = 7
			a flow 5 = 7
			b take = one
			a flow 7 = 6
			a flow 8 = 7
			b flow 8 = 7`},
	{"a port that lags takes away nothing", `
			a flow 5 = 5
			b flow 5 = 5
			a flow 1 = 1
			a flow 9 = 9
			b flow 1 = 9
			b flow 9 = 9`},
	{"less than was taken already", `
			a flow 5 = 5
			a take = one
			a take = one
			a take = one
			a flow 1 = -2
			a take = none
			a flow 4 = 1
			a take = one
			a take = none`},
	{"a drain is over when the last port has answered", `
			a drain 5 = 5
			b drain 5 = 5
			a take = one
			a end = open
			a answer = open
			b take = one
			b end = over
			a take = none
			b take = none
			a end = moved
			b answer = moved
			a flow 7 = 2`},
	{"the answer of the last one is on its way when it is the last", `
			a drain 5 = 5
			b drain 5 = 5
			a end = open
			b end = open
			b answer = open
			a answer = over
			a flow 6 = 1`},
	{"what is delivered behind an answer is answered for, too", `
			a drain 5 = 5
			b drain 5 = 5
			a answer = open
			a take = again
			b end = open
			b answer = open
			a end = over
			a flow 6 = 1`},
	{"no answer comes twice", `
			a drain 5 = 5
			a answer = open
			a take = again
			a answer = open
			b drain 5 = 4
			b end = over
			b end = moved`},
	{"a flow behind a drain ends it without an answer", `
			a drain 5 = 5
			b drain 5 = 5
			a answer = open
			a flow 6 = 6
			b end = moved
			a take = one
			b take = one
			b flow 6 = 4
			b end = moved
			a end = moved`},
	{"of two drains the second one counts", `
			a drain 5 = 5
			b drain 5 = 5
			a answer = open
			b drain 5 = 5
			b answer = open
			a end = moved
			a drain 5 = 5
			a end = over
			a drain 9 = 4
			b drain 9 = 4
			a answer = open
			b end = over`},
	{"the answer of a port to the drain before the last", `
			a drain 5 = 5
			a take = one
			b drain 5 = 4
			b drain 8 = 7
			a answer = moved
			a take = one
			b end = open
			b answer = open
			a drain 8 = 6
			a end = over
			a flow 9 = 1`},
	{"a drain of less than was delivered ends with its count", `
			a flow 5 = 5
			b flow 5 = 5
			a take = one
			b take = one
			a drain 1 = -1
			b drain 1 = -1
			a answer = open
			b end = over
			a flow 2 = 1`},
	{"nothing is left when the link is closed", `
			a drain 5 = 5
			b close
			a take = none
			a answer = moved`},
	{"limits are serial numbers", fmt.Sprintf(`
			a flow %d = 2147483647
			a take = one
			a flow %d = 2147483647
			b flow %[1]d = 2147483647
			b flow %[2]d = 2147483647
			b flow 1 = 0`, math.MaxInt32, 1<<31)},
}

// creditPort is a port's view of a credit that two ports share.
type creditPort struct {
	credit *credit
	flows  uint32
	limit  uint32
	said   bool // an answer to the drain of the last flow
}

func (p *creditPort) call(t *testing.T, words []string) string {
	steps := map[drainStep]string{drainOpen: "open", drainOver: "over", drainMoved: "moved"}
	switch words[0] {
	case "flow", "drain":
		limit, err := strconv.ParseUint(words[1], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(p.flow(uint32(limit), words[0] == "drain", 2))
	case "take":
		ok, owing := p.credit.take(p.flows, p.said)
		switch {
		case owing:
			p.said = false
			return "again"
		case ok:
			return "one"
		}
		return "none"
	case "end":
		return steps[p.credit.endDrain(p.flows)]
	case "answer":
		p.said = true
		return steps[p.credit.answerDrain(p.flows)]
	}
	p.credit.close()
	return ""
}

func (p *creditPort) flow(limit uint32, drain bool, ports int) int32 {
	change := int32(limit - p.limit)
	p.flows, p.limit, p.said = nextFlow(p.flows), limit, false
	return p.credit.flow(p.flows, change, drain, ports)
}

// Ports that work at the same time take as much credit as there is, and no more, and each of their
// drains ends once.
func TestCreditAtOnce(t *testing.T) {
	t.Parallel()
	const ports, flows, more = 4, 2000, 3
	var shared credit
	var taken, over atomic.Int64
	var given atomic.Int64 // given up by drains
	var rounds [flows]sync.WaitGroup
	for i := range rounds {
		rounds[i].Add(ports)
	}
	var wg sync.WaitGroup
	for range ports {
		wg.Go(func() {
			p := &creditPort{credit: &shared}
			for n := range uint32(flows) {
				drains := n%2 == 1
				p.flow((n+1)*more, drains, ports)
				for range n % 3 {
					if ok, _ := shared.take(p.flows, false); ok {
						taken.Add(1)
					}
				}
				if drains {
					if shared.answerDrain(p.flows) == drainOver {
						over.Add(1)
						given.Add(int64((n+1)*more) - taken.Load() - given.Load())
					}
					rounds[n].Done()
					rounds[n].Wait() // waits for its end
				}
			}
		})
	}
	wg.Wait()
	if over.Load() != flows/2 || taken.Load()+given.Load() != flows*more || shared.left() != 0 {
		t.Errorf("%d drains are over, %d were taken and %d given up of %d, %d are left", over.Load(), taken.Load(), given.Load(), flows*more, shared.left())
	}
}

// In each loop credit is served in the order of its arrival: credit that other ports used counts as
// the part that had waited longest.
func TestCreditOfOtherPorts(t *testing.T) {
	t.Parallel()
	entity := &engine.Entity{ID: 1, Hosts: []engine.PartitionID{0, 1}}
	w := newReceivers(engine.NewPartition(0, 2, index.New()), 10)
	var both, alone *receiver
	for _, r := range []**receiver{&both, &alone} {
		*r = &receiver{Receiver: &engine.Receiver{Entity: entity}}
		if err := w.Attach(*r); err != nil {
			t.Fatal(err)
		}
	}
	w.Flow(both, 4, false)
	w.Flow(alone, 2, false)
	w.Flow(both, 6, false)
	both.link.credit.take(0, false) // by the other port
	both.link.credit.take(0, false)
	queue := w.queueOf(both)
	serve := func(want ...*receiver) {
		t.Helper()
		for i, r := range want {
			if got := queue.Next(); got != r || !queue.Assign(1) {
				t.Errorf("%d: it is another's turn", i)
			}
		}
	}
	serve(both)
	both.link.credit.take(0, false)
	w.Flow(both, 7, false)
	serve(alone, alone, both, both, both)
	if r := queue.Next(); r != nil || both.queued != 0 || both.credit() != 0 {
		t.Errorf("there is more: %v, %d of %d", r, both.queued, both.credit())
	}
}
