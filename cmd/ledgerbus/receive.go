package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

const (
	drainTimeout  = 5 * time.Second
	settleTimeout = 30 * time.Second
)

func receiveCommand() *cli.Command {
	return &cli.Command{
		Name:      "receive",
		Usage:     "receive messages from a queue, a subscription or one of their dead-letter queues",
		ArgsUsage: "ENTITY",
		Description: "Locks messages, prints them and settles them as the flags say. Without --complete, --abandon, --dead-letter,\n" +
			"--defer or --delete it leaves them locked and prints the lock token. Such a message becomes available again\n" +
			"when its lock ends, and this counts as a failed delivery. To look at messages without an effect use peek.\n\n" +
			"   ledgerbus receive orders --complete\n" +
			"   ledgerbus receive orders --count 0 --complete -o json > messages.json\n" +
			"   ledgerbus receive 'orders/$dlq' --abandon\n" +
			"   ledgerbus receive 'orders/$transfer/$dlq' --complete\n" +
			"   ledgerbus receive baskets --session next --count 0 --complete\n" +
			"   ledgerbus receive orders --deferred 17 --deferred 21 --complete",
		Flags: connectionFlags(
			output.Flag(output.Text, output.JSON),
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 1, Usage: "maximum number of messages; 0: unlimited"},
			&cli.GenericFlag{Name: "wait", Aliases: []string{"w"}, Usage: "how long to wait for a message before giving up", Value: &quantity.DurationFlag{Value: 5 * time.Second}},
			&cli.BoolFlag{Name: "complete", Usage: "complete each message: remove it from the queue"},
			&cli.BoolFlag{Name: "abandon", Usage: "abandon each message: return it as a failed delivery"},
			&cli.BoolFlag{Name: "dead-letter", Usage: "move each message to the dead-letter queue"},
			&cli.BoolFlag{Name: "defer", Usage: "defer each message: only its sequence number finds it"},
			&cli.BoolFlag{Name: "delete", Usage: "receive and delete: without a lock; each message is deleted when it is sent"},
			&cli.StringFlag{Name: "session", Usage: "receive the messages of this session; next: of any session that has messages"},
			&cli.Int64SliceFlag{Name: "deferred", Usage: "sequence number of a deferred message; repeatable"},
			&cli.StringFlag{Name: "reason", Usage: "with --dead-letter: the reason"},
			&cli.StringFlag{Name: "description", Usage: "with --dead-letter: the description"},
			&cli.IntFlag{Name: "in-flight", Value: 100, Usage: "maximum number of messages being received or settled at a time"},
		),
		Action: receive,
	}
}

// A settlement settles a message; nil leaves it locked.
type settlement func(context.Context, *client.Receiver, *amqp.Message) error

func chooseSettlement(c *cli.Context) (settlement, error) {
	choices := map[string]settlement{
		"complete": func(ctx context.Context, r *client.Receiver, m *amqp.Message) error { return r.Complete(ctx, m) },
		"abandon":  func(ctx context.Context, r *client.Receiver, m *amqp.Message) error { return r.Abandon(ctx, m) },
		"defer":    func(ctx context.Context, r *client.Receiver, m *amqp.Message) error { return r.Defer(ctx, m) },
		"dead-letter": func(ctx context.Context, r *client.Receiver, m *amqp.Message) error {
			return r.DeadLetter(ctx, m, c.String("reason"), c.String("description"))
		},
		"delete": nil,
	}
	var chosen settlement
	n := 0
	for name, s := range choices {
		if c.Bool(name) {
			chosen = s
			n++
		}
	}
	if n > 1 {
		return nil, usageError{errors.New("--complete, --abandon, --dead-letter, --defer and --delete cannot be used together")}
	}
	if !c.Bool("dead-letter") && (c.IsSet("reason") || c.IsSet("description")) {
		return nil, usageError{errors.New("--reason and --description need --dead-letter")}
	}
	return chosen, nil
}

func receive(c *cli.Context) error {
	settle, err := chooseSettlement(c)
	if err != nil {
		return err
	}
	if c.Int("count") < 0 || c.Int("in-flight") < 1 || program.DurationOf(c, "wait") <= 0 {
		return usageError{errors.New("--count must not be negative, --in-flight must be at least 1, --wait must be more than 0")}
	}
	mode := client.PeekLock
	if c.Bool("delete") {
		mode = client.ReceiveAndDelete
	}
	if c.IsSet("deferred") && (c.IsSet("count") || c.String("session") == nextSession) {
		return usageError{errors.New("--deferred cannot be used with --count or --session next")}
	}
	s, err := connect(c)
	if err != nil {
		return err
	}
	defer s.close()
	if s.number > 0 {
		return usageError{fmt.Errorf("a message is received by number only if it is deferred: give --deferred %d", s.number)}
	}
	link, err := openReceiver(c, s, mode)
	if err != nil {
		return err
	}
	if c.IsSet("deferred") {
		return receiveDeferred(c, s, mode)
	}
	r := &receiveRun{
		link: link, settle: settle, count: c.Int("count"), wait: program.DurationOf(c, "wait"), window: c.Int("in-flight"), out: output.Of(c),
		bar: newProgress(c.Int("count"), "receiving from "+s.entity, true), slots: make(chan struct{}, c.Int("in-flight")),
	}
	err = r.run(s.ctx)
	r.bar.finish()
	if err == nil && r.out.Format == output.Text {
		r.printSummary(c, s.entity, mode)
	}
	return err
}

// nextSession selects any session that has messages.
const nextSession = "next"

// openReceiver opens the link, with a session if one is requested.
func openReceiver(c *cli.Context, s *session, mode client.Mode) (*client.Receiver, error) {
	if !c.IsSet("session") {
		if c.IsSet("deferred") {
			return nil, nil // they arrive in answers to requests
		}
		return s.NewReceiver(s.ctx, s.entity, mode)
	}
	var id *string
	if name := c.String("session"); name != nextSession {
		id = &name
	}
	link, err := s.NewSessionReceiver(s.ctx, s.entity, id, program.DurationOf(c, "wait"), mode)
	if err != nil {
		return nil, err
	}
	if name, ok := link.Session(); ok && id == nil {
		fmt.Fprintf(os.Stderr, "session %s\n", program.Printable(name))
	}
	return link, nil
}

// receiveDeferred receives deferred messages. The link that holds their session, if any, is open.
func receiveDeferred(c *cli.Context, s *session, mode client.Mode) error {
	var id *string
	if c.IsSet("session") {
		name := c.String("session")
		id = &name
	}
	messages, err := s.ReceiveDeferred(s.ctx, s.entity, id, mode, c.Int64Slice("deferred")...)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := printMessage(output.Of(c), client.View(m)); err != nil {
			return err
		}
		for name, d := range map[string]client.Disposition{
			"complete": client.Completed, "abandon": client.Abandoned, "defer": client.Deferred, "dead-letter": client.DeadLettered,
		} {
			if !c.Bool(name) {
				continue
			}
			if err := s.SettleDeferred(s.ctx, s.entity, id, m, d, c.String("reason"), c.String("description")); err != nil {
				return fmt.Errorf("message #%d: %w", client.View(m).SequenceNumber, err)
			}
		}
	}
	return nil
}

// A receiveRun is one run of the receive command.
type receiveRun struct {
	link   *client.Receiver
	settle settlement
	count  int // 0: no limit
	wait   time.Duration
	window int
	out    *output.Printer
	bar    progress
	slots  chan struct{} // one per settlement in progress

	received int
	credit   int // granted and unused
	settling sync.WaitGroup
	mu       sync.Mutex
	failure  error // guarded by mu: the first failed settlement
}

func (r *receiveRun) run(ctx context.Context) error {
	err := r.receiveAll(ctx)
	r.settling.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(err, r.failure)
}

func (r *receiveRun) receiveAll(ctx context.Context) error {
	for r.count == 0 || r.received < r.count {
		if err := r.replenish(); err != nil {
			return err
		}
		one, cancel := context.WithTimeout(ctx, r.wait)
		m, err := r.link.Receive(one)
		over := one.Err() != nil
		cancel()
		switch {
		case err == nil:
			if err := r.handle(ctx, m); err != nil {
				return err
			}
		case over: // timeout or signal: take the messages on their way and end
			return r.withdrawCredit()
		default:
			return err
		}
	}
	return nil
}

// replenish grants credit for the remaining messages and never more, so that every locked message
// is printed.
func (r *receiveRun) replenish() error {
	want := r.window
	if r.count > 0 {
		want = min(want, r.count-r.received)
	}
	if r.credit > want/2 {
		return nil
	}
	more := want - r.credit
	r.credit += more
	return r.link.Credit(more)
}

// withdrawCredit withdraws the credit and handles messages that arrived meanwhile, because they are
// locked or deleted for this receiver.
func (r *receiveRun) withdrawCredit() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	late, err := r.link.Drain(ctx)
	for _, m := range late {
		if err := r.handle(ctx, m); err != nil {
			return err
		}
	}
	return err
}

// handle prints a message before it settles it: printing a message twice is better than losing it
// unseen.
func (r *receiveRun) handle(ctx context.Context, m *amqp.Message) error {
	r.received++
	r.credit--
	if err := printMessage(r.out, client.View(m)); err != nil {
		return err
	}
	r.bar.add(1)
	if r.settle == nil {
		return nil
	}
	r.slots <- struct{}{}
	r.settling.Go(func() {
		defer func() { <-r.slots }()
		// Messages received before a signal are still settled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		if err := r.settle(ctx, r.link, m); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.failure == nil {
				r.failure = fmt.Errorf("message #%d: %w", client.View(m).SequenceNumber, err)
			}
		}
	})
	return nil
}

// printSummary prints the outcome of the messages on standard error.
func (r *receiveRun) printSummary(c *cli.Context, entity string, mode client.Mode) {
	what := "left locked until their locks end"
	if c.IsSet("session") {
		what = "left unsettled; they are available again because the session was released"
	}
	for name, done := range map[string]string{"complete": "completed", "abandon": "abandoned", "dead-letter": "dead-lettered", "defer": "deferred"} {
		if c.Bool(name) {
			what = done
		}
	}
	if mode == client.ReceiveAndDelete {
		what = "received and deleted"
	}
	if r.received == 0 {
		fmt.Fprintf(os.Stderr, "no message in %s within %s\n", program.Printable(entity), r.wait)
		return
	}
	fmt.Fprintf(os.Stderr, "%s from %s %s\n", plural(r.received, "message"), program.Printable(entity), what)
}
