package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// peekPage is the number of messages per request; the broker may send fewer.
const peekPage = 100

func peekCommand() *cli.Command {
	return &cli.Command{
		Name:      "peek",
		Usage:     "show messages without locking or changing them",
		ArgsUsage: "ENTITY[#NUMBER]",
		Description: "Shows waiting, locked, deferred and scheduled messages in the order of their sequence numbers.\n\n" +
			"   ledgerbus peek orders --count 0\n" +
			"   ledgerbus peek orders#1042\n" +
			"   ledgerbus peek 'orders/$dlq' --from 1042 -o json",
		Flags: connectionFlags(
			output.Flag(output.Text, output.JSON),
			&cli.StringFlag{Name: "session", Usage: "only messages of this session"},
			&cli.Int64Flag{Name: "from", Value: 1, Usage: "first sequence number"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 10, Usage: "maximum number of messages; 0: all"},
		),
		Action: peek,
	}
}

func peek(c *cli.Context) error {
	count, from := c.Int("count"), c.Int64("from")
	if count < 0 || from < 0 {
		return usageError{errors.New("--count and --from must not be negative")}
	}
	s, err := connect(c)
	if err != nil {
		return err
	}
	defer s.close()
	if s.number > 0 {
		if c.IsSet("from") || c.IsSet("count") || c.IsSet("session") {
			return usageError{errors.New("--from, --count and --session cannot be used with the number of a message")}
		}
		from, count = int64(s.number), 1
	}
	out := output.Of(c)
	bar := newProgress(count, "peeking at "+s.entity, true)
	defer bar.finish()
	shown := 0
	for count == 0 || shown < count {
		page := peekPage
		if count > 0 {
			page = min(page, count-shown)
		}
		var messages []*amqp.Message
		if c.IsSet("session") {
			messages, err = s.PeekSession(s.ctx, s.entity, c.String("session"), from, page)
		} else {
			messages, err = s.Peek(s.ctx, s.entity, from, page)
		}
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			v := client.View(m)
			if s.number > 0 && v.SequenceNumber != from {
				return fmt.Errorf("no message #%d in %s", from, s.entity)
			}
			if v.SequenceNumber < from {
				return fmt.Errorf("peek: the broker sent message #%d for a request from #%d on", v.SequenceNumber, from)
			}
			if err := printMessage(out, v); err != nil {
				return err
			}
			from = v.SequenceNumber + 1
		}
		shown += len(messages)
		bar.add(len(messages))
	}
	if shown == 0 && out.Format == output.Text {
		fmt.Fprintf(os.Stderr, "no message in %s from %d on\n", program.Printable(s.entity), from)
	}
	return nil
}

// printMessage prints one message: a summary line, its properties and its body, or one JSON object.
func printMessage(out *output.Printer, m client.Message) error {
	if out.Format == output.JSON {
		return out.Value(m)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#%d", m.SequenceNumber)
	text := func(name string, value *string) {
		if value != nil && *value != "" {
			fmt.Fprintf(&b, "  %s=%s", name, program.Printable(*value))
		}
	}
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s=%s", name, program.Printable(value))
		}
	}
	text("id", m.MessageID)
	if m.SessionID != nil {
		field("session", fmt.Sprintf("%q", *m.SessionID))
	}
	text("subject", m.Subject)
	text("content-type", m.ContentType)
	text("correlation", m.CorrelationID)
	field("state", m.State)
	if m.DeliveryCount > 0 {
		field("failed-deliveries", fmt.Sprint(m.DeliveryCount))
	}
	field("enqueued", when(m.EnqueuedTime))
	if m.EnqueuedSequence > 0 {
		field("sent-as", fmt.Sprintf("#%d", m.EnqueuedSequence))
	}
	field("dead-letter-source", m.DeadLetterSource)
	field("dead-letter-reason", m.DeadLetterReason)
	field("dead-letter-description", m.DeadLetterDescription)
	if m.LockToken != nil && m.LockedUntil != nil {
		field("lock", m.LockToken.String())
		field("until", when(m.LockedUntil))
	}
	b.WriteByte('\n')
	writeProperties(&b, m.Properties)
	body := string(m.Body.Data)
	if m.Body.Value != nil {
		body = fmt.Sprint(m.Body.Value)
	}
	writeBody(&b, body)
	_, err := io.WriteString(out, b.String())
	return err
}

func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// writeProperties writes the application properties of a message, a line each, by name.
func writeProperties(b *strings.Builder, properties map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(b, "  %s: %s\n", program.Printable(key), program.Printable(fmt.Sprint(properties[key])))
	}
}

// writeBody writes the body of a message, indented.
func writeBody(b *strings.Builder, body string) {
	fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(program.Printable(body), "\n", "\n  "))
}
