package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// chainTest is a chain of queues in three partitions, where the dead letters of the second move
// back to the partition of the first, and a queue that messages are sent through.
type chainTest struct {
	*fenceTest
	a, b, end, dead engine.Target
}

func chained(t *testing.T) *chainTest {
	t.Helper()
	m := &chainTest{fenceTest: onFencedDisk(t)}
	m.end = m.placed(t, 3, "end", testQueue())
	m.dead = m.placed(t, 1, "dead", testQueue())
	p := forwardTo("end")
	p.ForwardDeadLetteredMessagesTo = "dead"
	m.b = m.placed(t, 2, "b", p)
	m.a = m.placed(t, 1, "a", forwardTo("b"))
	return m
}

// begin sends a message, to the head of the chain or through it to its end, and reports when it is
// answered.
func (m *chainTest) begin(id string, via bool) answer {
	cmd := &engine.Send{Entity: m.a.Entity, Slice: m.a.Slice(0), Messages: []engine.Message{{ID: []byte(id), Body: []byte(id)}}}
	if via {
		cmd.Destination = m.end.Entity
	}
	in := make(answer, 1)
	m.Submit(m.a.Host(0), []engine.Request{{Sink: in, Command: cmd}})
	return in
}

// S4, F9, SM-268: partitions of a chain of queues are fenced one after the other, by a sync that
// fails and by an operator, while messages move and others are sent through; each is restarted. A
// message that was accepted is at the end once; one whose outcome is unknown, at most once.
func TestMovesOverFences(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			movesOverFences(t, seed)
		})
	}
}

func movesOverFences(t *testing.T, seed uint64) {
	m := chained(t)
	rng := rand.New(rand.NewPCG(seed, 44))
	answers, accepted, unknown := map[string]answer{}, map[string]bool{}, map[string]bool{}
	for round := range 12 {
		for i := range 40 {
			id := fmt.Sprintf("%d-%d", round, i)
			answers[id] = m.begin(id, i%4 == 3)
		}
		id := engine.PartitionID(1 + rng.IntN(3))
		if rng.IntN(2) == 0 {
			heal := m.fail(id)
			for i := 0; m.status(id).State == engine.PartitionServing; i++ {
				m.provoke(id, i)
			}
			m.comesTo(t, id, engine.PartitionFenced)
			heal()
		} else if err := m.FencePartition(t.Context(), id, nil, event.ReasonGiven{}); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			id := fmt.Sprintf("%d+%d", round, i)
			answers[id] = m.begin(id, i%4 == 3)
		}
		if s, err := m.RestartPartition(t.Context(), id, nil, event.ReasonGiven{}); err != nil {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	for id, a := range answers {
		switch r := <-a; {
		case r.Err == nil:
			accepted[id] = true
		case errors.Is(r.Err, engine.ErrUnknown):
			unknown[id] = true
		case !isBusy(r.Err):
			t.Fatalf("%s: %v", id, r.Err)
		}
	}
	m.arrive(t, len(accepted), accepted, unknown)
	m.close(t)
}

// provoke makes a partition write to its log.
func (f *fenceTest) provoke(id engine.PartitionID, i int) {
	in := make(answer, 1)
	f.Submit(id, []engine.Request{{Sink: in, Command: &engine.Note{Fact: &event.PartitionRestarted{LogPartition: uint32(i)}}}})
	<-in
}

// arrive waits until nothing is in progress, and checks that accepted messages are at the end of
// the chain once, and those with an unknown outcome at most once.
func (m *chainTest) arrive(t *testing.T, n int, accepted, unknown map[string]bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r, err := m.Runtime(t.Context(), []*engine.Entity{m.a.Entity, m.b.Entity, m.end.Entity})
		if err != nil {
			t.Fatal(err)
		}
		if r[2].Active >= n && r[0].Active+r[0].Transfer+r[1].Active+r[1].Transfer == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it comes to %+v, want %d at the end", r, n)
		}
	}
	found := map[string]int{}
	for at, times := range m.messages(t, m.end) {
		_, id, _ := strings.Cut(at, " ")
		found[id] += times
	}
	for id, times := range found {
		if times > 1 || !accepted[id] && !unknown[id] {
			t.Errorf("%s is there %d times", id, times)
		}
	}
	for id := range accepted {
		if found[id] != 1 {
			t.Errorf("%s was accepted, and is there %d times", id, found[id])
		}
	}
	for _, q := range []engine.Target{{Entity: m.a.Entity, SubQueue: event.DeadLetter}, {Entity: m.b.Entity, SubQueue: event.DeadLetter}, m.dead} {
		reply, err := m.ask(t.Context(), q.Host(0), &engine.Peek{Slice: q.Slice(0), SubQueue: q.SubQueue, From: 1, Count: 10, MaxBytes: 1 << 20})
		if err != nil || len(reply.Messages()) > 0 {
			t.Errorf("%s has dead letters: %d, %v", q.Entity.Path, len(reply.Messages()), err)
		}
	}
}

// F14: the process dies, or the power fails, at any call of the file system while one partition is
// restarted and messages wait for it: the next start finds everything that was accepted, and
// waiting messages arrive, once.
func TestRestartDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			for k := 1; dieAtRestart(t, k, mode); k++ {
			}
		})
	}
}

// dieAtRestart reports whether there was such a call.
func dieAtRestart(t *testing.T, k int, mode faultfs.Mode) bool {
	m := chained(t)
	accepted := map[string]bool{}
	for i := range 5 {
		id := fmt.Sprint("before", i)
		accepted[id] = (<-m.begin(id, i == 3)).Err == nil
	}
	heal := m.fail(2)
	for i := 0; m.status(2).State == engine.PartitionServing; i++ {
		m.provoke(2, i)
	}
	m.comesTo(t, 2, engine.PartitionFenced)
	<-m.slots[2].last.ended
	heal()
	for i := range 5 {
		id := fmt.Sprint("away", i)
		accepted[id] = (<-m.begin(id, i == 3)).Err == nil
	}
	left := k
	crashed := false
	m.disk.Hook(func(c faultfs.Call) faultfs.Fault {
		if crashed {
			return faultfs.Fault{Err: faultfs.ErrCrashed}
		}
		if strings.Contains(c.Name, "/partitions/02/") {
			left--
		}
		if left == 0 {
			crashed = true
			return faultfs.Fault{Err: faultfs.ErrCrashed}
		}
		return faultfs.Fault{}
	})
	_, err := m.RestartPartition(t.Context(), 2, nil, event.ReasonGiven{})
	m.disk.Hook(func(faultfs.Call) faultfs.Fault { return faultfs.Fault{Err: syscall.EIO} })
	image := m.disk.Crash(rand.New(rand.NewPCG(uint64(k), uint64(mode))), mode)
	_ = m.Close()
	_ = m.store.Close()
	m.disk = image
	m.start(t)
	for _, q := range []*engine.Target{&m.a, &m.b, &m.end, &m.dead} {
		var err error
		if *q, err = m.Resolve(q.Entity.Path); err != nil {
			t.Fatal(err)
		}
	}
	for id, yes := range accepted {
		if !yes {
			delete(accepted, id)
		}
	}
	m.arrive(t, len(accepted), accepted, nil)
	m.close(t)
	return err != nil
}
