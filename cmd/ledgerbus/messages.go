package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// messagesOnTerminal is the number of messages printed on a terminal unless --top is given.
const messagesOnTerminal = 20

func messagesCommand() *cli.Command {
	return &cli.Command{
		Name: "messages", Usage: "list messages and their states, or search them by a condition", ArgsUsage: "ENTITY",
		Description: "Shows messages in the order of their sequence numbers, in every state: also locked and deferred messages. The\n" +
			"condition of --where is written like the filter of a rule. A plain name is a column (sequenceNumber, state,\n" +
			"enqueuedTime, expiresAt, lockedUntil, scheduledFor, deliveryCount, sessionId, size, enqueuedSequenceNumber,\n" +
			"deadLetterSource, hops). sys.NAME and user.NAME are properties of the message, and body.NAME is a member of a\n" +
			"JSON body. These three, and --bodies, need the right ReadBodies.\n\n" +
			"   ledgerbus messages orders --state locked\n" +
			"   ledgerbus messages orders --where \"body.order.id = 4711 AND state = 'active'\"\n" +
			"   ledgerbus messages 'orders/$dlq' --where \"user.DeadLetterReason = 'BadTotal'\" --bodies -o json\n\n" +
			"On a terminal the command stops after 20 messages unless --top is given, and prints how to go on." + presentHelp,
		Flags: connectionFlags(append(presentFlags(), output.Flag(),
			&cli.StringFlag{Name: "state", Usage: "only messages in this state: active, locked, deferred, scheduled or transferring"},
			&cli.StringFlag{Name: "where", Usage: "only messages that meet this condition"},
			&cli.StringFlag{Name: "session", Usage: "only messages of this session"},
			&cli.Uint64Flag{Name: "from", Usage: "first sequence number", DefaultText: "the first message"},
			&cli.IntFlag{Name: "top", Usage: "print at most this many messages; 0: all", DefaultText: "20 on a terminal, otherwise all"},
			&cli.BoolFlag{Name: "bodies", Usage: "also print properties and bodies"})...),
		Action: listMessages,
	}
}

func listMessages(c *cli.Context) error {
	if err := arguments(c, 1, 1, "the path of a queue, a topic, a subscription, or a sub-queue such as orders/$dlq"); err != nil {
		return err
	}
	q := rows.MessagesQuery{Entity: c.Args().First(), State: c.String("state"), Where: c.String("where"), From: c.Uint64("from"), Bodies: c.Bool("bodies")}
	if c.IsSet("session") {
		id := c.String("session")
		q.Session = &id
	}
	top := c.Int("top")
	if top < 0 {
		return usageError{errors.New("--top must not be negative")}
	}
	p := &messagePrinter{Printer: output.Of(c), bodies: q.Bodies}
	if !c.IsSet("top") && p.Format == output.Text && currentAudience().out {
		top = messagesOnTerminal
	}
	return withPresence(c, func(ctx context.Context, of presence) error { return p.print(ctx, of, q, top) })
}

// A messagePrinter prints messages as rows, each page as soon as it is there. Until the first row a
// progress bar shows how far a search has come.
type messagePrinter struct {
	*output.Printer
	bodies bool

	bar       progress
	shown     int
	scanned   int
	undecided int
	reason    string // for the first of them
	missing   []int
}

// print prints the first top messages, 0 for all, page by page.
func (p *messagePrinter) print(ctx context.Context, of presence, q rows.MessagesQuery, top int) error {
	for {
		q.Top = rows.Max
		if top > 0 {
			q.Top = min(top-p.shown, rows.Max)
		}
		page, err := of.Messages(ctx, q)
		if err == nil {
			err = p.page(&page)
		}
		if err != nil {
			return err
		}
		q.From = page.Next
		p.followSearch(page.Scanned)
		if q.From == 0 || p.shown == top && top > 0 {
			return p.end(q.From)
		}
	}
}

// followSearch moves the progress bar, which ends with the first row.
func (p *messagePrinter) followSearch(scanned int) {
	if p.shown > 0 {
		return
	}
	if p.bar.bar == nil {
		p.bar = newProgress(0, "searching", false)
	}
	p.bar.add(scanned)
}

// page prints the rows of a page.
func (p *messagePrinter) page(page *rows.Messages) error {
	if p.shown += len(page.Messages); p.shown > 0 {
		p.bar.finish()
	}
	p.scanned += page.Scanned
	if p.undecided == 0 {
		p.reason = page.UndecidedReason
	}
	p.undecided += page.Undecided
	for _, id := range page.Missing {
		if !slices.Contains(p.missing, id) {
			p.missing = append(p.missing, id)
		}
	}
	if p.Format == output.Text && !p.bodies {
		if len(page.Messages) == 0 {
			return nil
		}
		return output.Rows(p.Printer, page.Messages, messageRow)
	}
	for i := range page.Messages {
		m := &page.Messages[i]
		var err error
		switch p.Format {
		case output.Text:
			_, err = io.WriteString(p, messageText(m))
		case output.CSV:
			err = p.record(m)
		default:
			err = p.Value(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// record prints a message as a record of CSV.
func (p *messagePrinter) record(m *rows.Message) error {
	if p.Columns == nil {
		p.Columns = []string{"sequenceNumber", "state", "enqueuedTime", "expiresAt", "lockedUntil", "scheduledFor", "deliveryCount", "sessionId", "size",
			"enqueuedSequenceNumber", "deadLetterSource", "hops"}
		if p.bodies {
			p.Columns = append(p.Columns, "message", "unread")
		}
	}
	fields, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return p.Line("row", "", fields)
}

// end prints notes about what was not printed. next is the first message that was not looked at; 0:
// there is none.
func (p *messagePrinter) end(next uint64) error {
	p.bar.finish()
	if p.Format == output.Text && !p.bodies && p.shown == 0 { // the header alone
		if err := output.Rows(p.Printer, nil, messageRow); err != nil {
			return err
		}
	}
	for _, id := range p.missing {
		fmt.Fprintf(p.Notes, "partition %d does not serve; its messages are missing\n", id)
	}
	if p.undecided > 0 {
		fmt.Fprintf(p.Notes, "messages for which the condition could not be evaluated: %d; %s\n", p.undecided, output.OneLine(p.reason))
	}
	switch {
	case next != 0:
		fmt.Fprintf(p.Notes, "%s shown, and more may follow: add --from %d to go on, or --top 0 for all\n", plural(p.shown, "message"), next)
	case p.shown == 0:
		fmt.Fprintf(p.Notes, "no message found; %d scanned\n", p.scanned)
	}
	return nil
}

// messageRow returns a message as a row of a table.
func messageRow(m rows.Message) print.Object {
	session, until := "", when(m.LockedUntil)
	if m.SessionID != nil {
		session = fmt.Sprintf("%q", *m.SessionID)
	}
	if m.ScheduledFor != nil {
		until = when(m.ScheduledFor)
	}
	return print.Object{
		print.Named("number", m.SequenceNumber), print.Named("state", m.State), print.Named("until", until), print.Named("enqueued", when(&m.EnqueuedTime)),
		print.Named("expires", when(m.ExpiresAt)), print.Named("failedDeliveries", m.DeliveryCount), print.Named("session", session), print.Named("size", m.Size),
	}
}

// messageText returns a message for people: a line with its state, its properties and its body.
func messageText(m *rows.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d  %s", m.SequenceNumber, m.State)
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s=%s", name, program.Printable(value))
		}
	}
	text := func(name string, value *string) {
		if value != nil {
			field(name, *value)
		}
	}
	c := m.Content
	if c == nil {
		c = &rows.Content{}
	}
	text("id", c.MessageID)
	if m.SessionID != nil {
		field("session", fmt.Sprintf("%q", *m.SessionID))
	}
	text("subject", c.Subject)
	text("content-type", c.ContentType)
	text("correlation", c.CorrelationID)
	if m.DeliveryCount > 0 {
		field("failed-deliveries", fmt.Sprint(m.DeliveryCount))
	}
	field("enqueued", when(&m.EnqueuedTime))
	field("scheduled-for", when(m.ScheduledFor))
	field("dead-letter-source", m.DeadLetterSource)
	field("dead-letter-reason", c.DeadLetterReason)
	field("dead-letter-description", c.DeadLetterDescription)
	field("locked-until", when(m.LockedUntil))
	field("unread", m.Unread)
	b.WriteByte('\n')
	writeProperties(&b, c.Properties)
	if c.Body != nil {
		writeBody(&b, string(c.Body))
	}
	if c.BodySize > 0 {
		fmt.Fprintf(&b, "  the first %d bytes of %d are shown\n", len(c.Body), c.BodySize)
	}
	return b.String()
}
