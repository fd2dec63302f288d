package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/test/history"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// asksOnline is how often a running broker is asked each question.
const asksOnline = 201

// online asks a broker that runs on the day: over one connection, as a console does, and by a new
// process each time.
func (m *measurement) online(ctx context.Context, connectionString string) error {
	c, err := admin.New(connectionString, admin.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	number := history.Queue(0) + "#" + fmt.Sprint(message)
	id := history.MessageID(0, message)
	fmt.Println("| | over a connection, ms: p50 (least–most) | by a new process, ms |")
	fmt.Println("|---|---:|---:|")
	for _, q := range []struct {
		what string
		asks ledger.Question
		args []string
	}{
		{"story of one message, by number", ledger.Question{Verb: "story", Of: address.Of(history.Queue(0), message)}, []string{"story", number}},
		{"story of one message, by id", ledger.Question{Verb: "story", MessageID: id}, []string{"story", "--message-id", id}},
	} {
		var warm, anew []time.Duration
		for range asksOnline {
			lines := 0
			began := time.Now()
			if err := c.Ask(ctx, q.asks.Verb, q.asks.Values(), func(*wire.Line) error { lines++; return nil }); err != nil {
				return err
			}
			if warm = append(warm, time.Since(began)); lines < 3 {
				return fmt.Errorf("%s: an answer of %d lines", q.what, lines)
			}
		}
		for range max(m.rounds, 3) {
			a, err := m.once(ctx, &question{args: append(q.args, "--connection-string", connectionString)})
			if err != nil {
				return err
			}
			anew = append(anew, a.answer)
		}
		slices.Sort(warm)
		slices.Sort(anew)
		ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
		fmt.Printf("| %s | %.1f (%.1f–%.1f) | %.1f |\n", q.what, ms(warm[len(warm)/2]), ms(warm[0]), ms(warm[len(warm)-1]), ms(anew[len(anew)/2]))
	}
	return nil
}
