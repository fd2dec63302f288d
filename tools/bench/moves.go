package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/tools/bench/floor"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// Measures the cost of forwarding: the time for messages that exist when it is set, the time for a
// single message, and the effect of a loop on other queues.

const (
	forwardedTo  = "bench-forwarded" // from the queue of loads
	hopsFrom     = "bench-hop"       // forwards to hopsTo from the beginning
	hopsTo       = "bench-hopped"
	loopFrom     = "bench-loop-a"
	loopTo       = "bench-loop-b" // forwards to loopFrom
	looping      = 10_000         // messages in the loop
	besideLoops  = 2_000          // sends per second during the loop
	movePatience = 10 * time.Minute
)

func largeQueueOf(name, forwardTo string) entityEntry {
	q := largeQueue()
	q.Name = name
	if forwardTo != "" {
		q.Properties["ForwardTo"] = forwardTo
	}
	return q
}

func (s *suite) moves(ctx context.Context) error {
	err := s.withMover(ctx, nil, func(m *mover) error {
		for range s.Rounds {
			if err := m.one(ctx); err != nil {
				return err
			}
		}
		for range s.Rounds {
			if err := m.loop(ctx); err != nil {
				return err
			}
		}
		return m.many(ctx, m.speed)
	})
	if err != nil {
		return err
	}
	return s.withMover(ctx, oftenCollected, func(m *mover) error { return m.many(ctx, m.memory) })
}

// withMover measures with a separate broker, with env added to its environment.
func (s *suite) withMover(ctx context.Context, env []string, measure func(*mover) error) error {
	b, err := newBroker(s.Program, s.Dir, &entityFile{Queues: []entityEntry{largeQueue(), largeQueueOf(forwardedTo, ""), largeQueueOf(hopsTo, ""),
		largeQueueOf(hopsFrom, hopsTo), largeQueueOf(loopFrom, ""), largeQueueOf(loopTo, loopFrom)}})
	if err != nil {
		return err
	}
	defer b.remove() //nolint:errcheck // a temporary directory
	b.env = env
	c, err := b.startReady(ctx)
	if err != nil {
		return err
	}
	defer c.kill()
	at, err := client.ParseConnectionString(c.target.ConnectionString)
	if err != nil {
		return err
	}
	m := mover{suite: s, broker: c, admin: admin.NewFrom(at, admin.Options{})}
	defer m.admin.Close()
	return measure(&m)
}

// A mover is a broker whose messages move.
type mover struct {
	*suite
	broker *child
	admin  *admin.Client
}

// many sets ForwardTo of a queue with waiting messages, and measures until the last one has moved.
func (m *mover) many(ctx context.Context, measure func(move func() error) error) error {
	if m.Waiting < 0 {
		return nil
	}
	if _, err := Send(ctx, m.broker.target, Load{Size: m.Size, InFlight: 512, Count: m.Waiting}); err != nil {
		return fmt.Errorf("moves: fill: %w", err)
	}
	return measure(func() error {
		if err := m.forward(ctx, brokerQueue, forwardedTo); err != nil {
			return err
		}
		return m.waitForMessages(ctx, forwardedTo, m.Waiting)
	})
}

// speed adds the rate of moving and its CPU time to the report.
func (m *mover) speed(move func() error) error {
	cpu, err := processCPU(m.broker.pid())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := move(); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := processCPU(m.broker.pid())
	if err != nil {
		return err
	}
	n := float64(m.Waiting)
	m.Log("moves: %d messages in %v", m.Waiting, short(took))
	m.report.add(brokerSide, "messages/s moved, of those there when ForwardTo is set", n/took.Seconds())
	m.report.add(brokerSide, cpuOf("message and hop"), (after-cpu).Seconds()/n*1e6)
	return nil
}

// memory adds the memory of moving to the report.
func (m *mover) memory(move func() error) error {
	before, err := residentAnonymous(m.broker.pid())
	if err != nil {
		return err
	}
	moved, most := make(chan struct{}), make(chan int64)
	go func() {
		largest := before
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			if now, err := residentAnonymous(m.broker.pid()); err == nil {
				largest = max(largest, now)
			}
			select {
			case <-tick.C:
			case <-moved:
				tick.Stop()
				most <- largest
				return
			}
		}
	}()
	err = move()
	close(moved)
	largest := <-most
	after, failed := residentAnonymous(m.broker.pid())
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	m.report.add(brokerSide, "MiB of resident memory before they move", mebibytes(before))
	m.report.add(brokerSide, "MiB of resident memory while they move, at most", mebibytes(largest))
	m.report.add(brokerSide, "MiB of resident memory when they have moved", mebibytes(after))
	return nil
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// one measures the time of a message that is forwarded once, compared with a sync.
func (m *mover) one(ctx context.Context) error {
	disk, err := floor.Disk(ctx, m.Dir, m.Size, m.DiskDuration)
	if err != nil {
		return err
	}
	const row = "one message at a time, forwarded once, end to end p50, µs"
	m.report.add(diskSide, row, micros(disk.Median))
	target := m.broker.target
	target.Queue, target.From = hopsFrom, hopsTo
	r, err := Both(ctx, target, Load{Size: m.Size, InFlight: 1, Duration: m.Duration, Credit: 10, Unanswered: true})
	if err != nil {
		return fmt.Errorf("moves: one at a time: %w", err)
	}
	if r.EndToEnd == nil {
		return errors.New("moves: one at a time: no message arrived")
	}
	m.Log("moves: one at a time: end to end %v; a sync %v", short(r.EndToEnd.P50), short(disk.Median))
	m.report.add(brokerSide, row, micros(r.EndToEnd.P50))
	return nil
}

// loop measures sends to another queue before and while messages circulate in a loop, which the
// limit of hops ends.
func (m *mover) loop(ctx context.Context) error {
	target := m.broker.target
	target.Queue = loopFrom
	if _, err := Send(ctx, target, Load{Size: m.Size, InFlight: 512, Count: looping}); err != nil {
		return fmt.Errorf("moves: fill the loop: %w", err)
	}
	load := Load{Size: m.Size, InFlight: 64, Rate: besideLoops, Duration: 2 * time.Second, Warmup: 500 * time.Millisecond}
	quiet, err := Send(ctx, m.broker.target, load)
	if err != nil {
		return err
	}
	dead, err := m.admin.Get(ctx, event.Queue, loopFrom)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		time.Sleep(load.Warmup + 100*time.Millisecond)
		failed <- m.forward(ctx, loopFrom, loopTo)
	}()
	beside, err := Send(ctx, m.broker.target, load)
	if err := errors.Join(err, <-failed); err != nil {
		return err
	}
	if err := m.waitForDeadLetters(ctx, loopFrom, dead.Runtime.DeadLetter+looping); err != nil {
		return err
	}
	m.Log("moves: sends during a loop: p99 %v, without %v", short(beside.Send.P99), short(quiet.Send.P99))
	m.report.add(brokerSide, "sends to another queue, p99, µs", micros(quiet.Send.P99))
	m.report.add(brokerSide, "sends to another queue while 10,000 messages go round, p99, µs", micros(beside.Send.P99))
	if _, err := Receive(ctx, m.broker.target, Load{Count: quiet.Accepted + beside.Accepted}); err != nil {
		return err
	}
	return m.forward(ctx, loopFrom, "")
}

// forward sets the destination of a queue's forwarding.
func (m *mover) forward(ctx context.Context, queue, to string) error {
	e, err := m.admin.Get(ctx, event.Queue, queue)
	if err != nil {
		return err
	}
	e.Properties.ForwardTo = to
	e.Present.Add(document.ForwardTo)
	_, err = m.admin.Update(ctx, e)
	return err
}

// waitForMessages waits until a queue has that many messages.
func (m *mover) waitForMessages(ctx context.Context, queue string, n int64) error {
	return m.until(ctx, queue, func(e *admin.Entity) bool { return int64(e.Runtime.Active) >= n })
}

// waitForDeadLetters waits until the dead-letter queue of a queue has that many messages.
func (m *mover) waitForDeadLetters(ctx context.Context, queue string, n int) error {
	return m.until(ctx, queue, func(e *admin.Entity) bool { return e.Runtime.DeadLetter >= n })
}

func (m *mover) until(ctx context.Context, queue string, reached func(*admin.Entity) bool) error {
	ctx, cancel := context.WithTimeout(ctx, movePatience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		e, err := m.admin.Get(ctx, event.Queue, queue)
		if err != nil {
			return err
		}
		if reached(e) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("bench: %s: %w; it has %+v", queue, ctx.Err(), e.Runtime)
		}
	}
}
