package bench

import (
	"context"
	"fmt"
)

// Measures how long a message takes to reach its receiver while others send and settle. Compares
// the broker with a floor server that syncs sends and settlements in groups and keeps messages in
// memory.

// A deliveryLoad is a load of senders and receivers.
type deliveryLoad struct {
	name    string
	load    Load
	backlog bool // the receivers take messages that were sent before
	// maximum number of unanswered settlements per receiver, if settlements are answered
	perLink int
	// maximum messages per second of a server, which determines the size of the backlog
	capacity int
}

var ladders = []deliveryLoad{
	{name: "8 senders × 8, 8 receivers, credit 10", load: Load{InFlight: 64, Connections: 8, Credit: 10}, perLink: 10},
	{name: "1 sender × 64, 1 receiver, credit 100", load: Load{InFlight: 64, Connections: 1, Credit: 100}, perLink: 100},
	{name: "1 receiver, credit 1", load: Load{InFlight: 512, Connections: 1, Credit: 1}, backlog: true, perLink: 1, capacity: 15_000},
}

func (s *suite) deliveries(ctx context.Context) error {
	f, err := startFloorChild(ctx, s.Size, "--keep", s.Dir)
	if err != nil {
		return err
	}
	defer f.stop() //nolint:errcheck // no longer needed
	c, end, err := s.startBroker(ctx)
	if err != nil {
		return err
	}
	defer end()
	sides := []side{{name: keptSide, target: f.target, pid: f.pid()}, {name: brokerSide, target: c.target, pid: c.pid()}}
	for round := range s.Rounds {
		for _, l := range ladders {
			for _, unanswered := range []bool{false, true} {
				// alternate the order, so that neither side is always first
				for i := range sides {
					if err := s.deliver(ctx, round, sides[(i+round)%len(sides)], l, unanswered); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// deliver measures one server under one load.
func (s *suite) deliver(ctx context.Context, round int, to side, l deliveryLoad, unanswered bool) error {
	name := l.name + ", answered"
	if unanswered {
		name = l.name + ", unanswered"
	}
	add := func(row string, v float64) { s.report.add(to.name, name+": "+row, v) }
	load := l.load
	load.Size, load.Duration, load.Unanswered, load.ServerPID = s.Size, s.Duration, unanswered, to.pid
	load.Acceptors = l.perLink * load.Connections
	to.target.Plain = s.Plain
	if !l.backlog {
		r, err := Both(ctx, to.target, load)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", to.name, name, err)
		}
		if r.EndToEnd == nil {
			return fmt.Errorf("%s, %s: no message came within %v", to.name, name, load.Duration)
		}
		s.Log("round %d: %s, %s: %.0f/s, end to end %v, %v", round+1, to.name, name, r.PerSecond, short(r.EndToEnd.P50), short(r.EndToEnd.P99))
		add("sends/s", r.PerSecond)
		add("end to end p50, µs", micros(r.EndToEnd.P50))
		add("end to end p99, µs", micros(r.EndToEnd.P99))
		add("backlog at the end, s of sends", float64(*r.Backlog)/r.PerSecond)
		return nil
	}
	fill := Load{Size: s.Size, InFlight: 512, Count: int64(float64(l.capacity) * (s.Duration.Seconds()*1.1 + 0.1))}
	sent, err := Send(ctx, to.target, fill)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", to.name, name, err)
	}
	r, err := Receive(ctx, to.target, load)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", to.name, name, err)
	}
	s.Log("round %d: %s, %s: %.0f/s", round+1, to.name, name, r.PerSecond)
	add("messages/s", r.PerSecond)
	// some may be locked by the closed link
	if left := sent.Accepted - r.Completed - int64(load.Credit); left > 0 {
		if _, err := Receive(ctx, to.target, Load{Count: left}); err != nil {
			return fmt.Errorf("%s, %s: remaining messages: %w", to.name, name, err)
		}
	}
	return nil
}
