package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func sendCommand() *cli.Command {
	return &cli.Command{
		Name:      "send",
		Usage:     "send messages to a queue or a topic",
		ArgsUsage: "ENTITY",
		Description: "Sends the message given with --body or --body-file, or each line of standard input as a message. Returns when\n" +
			"the broker has stored all messages. If it fails, unacknowledged messages may or may not be stored.\n\n" +
			"With --message the lines are messages in JSON, as receive and peek print them with -o json. Everything that a\n" +
			"sender can set is sent: ids, properties with their types, annotations, times and the body. Values that the broker\n" +
			"sets (numbers, locks, counts, dead-letter reasons) are ignored. Messages are sent as they are read: if a line is\n" +
			"invalid, the lines before it are sent.\n\n" +
			"   ledgerbus send orders --body '{\"id\": 7}' --content-type application/json --property region=eu\n" +
			"   ledgerbus send orders --body test --count 10000 --batch 100\n" +
			"   ledgerbus send orders --body later --schedule-in 10m\n" +
			"   ledgerbus send orders < lines.txt\n" +
			"   ledgerbus receive 'orders/$dlq' --count 0 --complete -o json | tee kept.json | ledgerbus send orders --message -",
		Flags: connectionFlags(
			output.Flag(output.Text, output.JSON),
			&cli.StringFlag{Name: "body", Aliases: []string{"b"}, Usage: "text of the message"},
			&cli.StringFlag{Name: "body-file", Usage: "file with the body of the message"},
			&cli.StringFlag{Name: "message", Usage: "file with messages in JSON, one per line, as printed by receive and peek; - for standard input"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 1, Usage: "how many times to send the body"},
			&cli.StringSliceFlag{Name: "property", Aliases: []string{"p"}, Usage: "application property NAME=VALUE, a string; NAME:int=, NAME:float= or NAME:bool= for other types; repeatable"},
			&cli.StringFlag{Name: "message-id", Usage: "message id, the same for all messages", DefaultText: "random"},
			&cli.StringFlag{Name: "session-id", Usage: "session id"},
			&cli.StringFlag{Name: "subject", Usage: "subject, also called label"},
			&cli.StringFlag{Name: "content-type", Usage: "content type, such as application/json"},
			&cli.StringFlag{Name: "correlation-id", Usage: "correlation id"},
			&cli.GenericFlag{Name: "time-to-live", Aliases: []string{"ttl"}, Usage: "time to live, such as 90s", DefaultText: "the entity's", Value: new(quantity.DurationFlag)},
			&cli.StringFlag{Name: "schedule-at", Usage: "when the messages become active, such as 2027-01-31T08:00:00Z"},
			&cli.GenericFlag{Name: "schedule-in", Usage: "how long until the messages become active, such as 10m", DefaultText: "at once", Value: new(quantity.DurationFlag)},
			&cli.IntFlag{Name: "batch", Value: 1, Usage: "messages per batch; a batch is stored whole or not at all"},
			&cli.IntFlag{Name: "in-flight", Value: 100, Usage: "maximum number of unacknowledged messages or batches at a time"},
		),
		Action: send,
	}
}

func send(c *cli.Context) error {
	if c.Int("count") < 1 || c.Int("batch") < 1 || c.Int("in-flight") < 1 {
		return usageError{errors.New("--count, --batch and --in-flight must be at least 1")}
	}
	if _, err := scheduledTime(c, time.Now()); err != nil {
		return usageError{err}
	}
	next, total, closeInput, err := outgoing(c)
	if err != nil {
		return err
	}
	defer closeInput()
	s, err := connect(c)
	if err != nil {
		return err
	}
	defer s.close()
	if s.number > 0 {
		return usageError{errors.New("give the entity without a number: the broker assigns the number")}
	}
	sender, err := s.NewSender(s.ctx, s.entity)
	if err != nil {
		return err
	}
	bar := newProgress(total, "sending to "+s.entity, false)
	began := time.Now()
	sent, err := sendAll(s.ctx, sender, next, c.Int("batch"), c.Int("in-flight"), bar.add)
	bar.finish()
	took := time.Since(began)
	// programs read the number of sent messages in any case
	if out := output.Of(c); err == nil || out.Format != output.Text {
		says := print.Object{print.Named("acknowledged", sent), print.Named("entity", s.entity), print.Named("seconds", took.Seconds())}
		if err := out.Said(fmt.Sprintf("%s to %s, acknowledged in %s", plural(sent, "message"), s.entity, took.Round(time.Millisecond)), says); err != nil {
			return err
		}
	}
	if err != nil && sent > 0 {
		return fmt.Errorf("after %s acknowledged: %w", plural(sent, "message"), err)
	}
	return err
}

// sendAll sends the messages of next until [io.EOF]. It returns the number of messages that the
// broker acknowledged. It starts messages in order, with at most inFlight unanswered.
func sendAll(ctx context.Context, sender *client.Sender, next func() (*amqp.Message, error), perBatch, inFlight int, acknowledged func(int)) (sent int, err error) {
	type pendingSend struct {
		wait  func(context.Context) error
		count int
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unanswered := make(chan pendingSend, inFlight-1) // the goroutine below holds one more
	answered := make(chan error, 1)
	go func() { // waits for the answers while sends continue
		var failure error
		for b := range unanswered {
			err := b.wait(ctx)
			switch {
			case err == nil:
				sent += b.count
				acknowledged(b.count)
			case failure == nil:
				failure = err
				cancel(err) // no further sends; does not wait for those in progress
			}
		}
		answered <- failure
	}()
	err = eachBatch(next, sender.NewBatch, perBatch, func(m *amqp.Message, count int) error {
		wait, err := sender.Begin(ctx, m)
		if err != nil {
			return err
		}
		unanswered <- pendingSend{wait, count}
		return nil
	})
	close(unanswered)
	if failure := <-answered; failure != nil {
		err = failure
	}
	return sent, err
}

// eachBatch groups messages: one by one for a batch size of 1, else up to the requested number, as
// far as they fit.
func eachBatch(next func() (*amqp.Message, error), empty func() *client.Batch, perBatch int, begin func(*amqp.Message, int) error) error {
	var batch *client.Batch
	flush := func() error {
		if batch == nil || batch.Len() == 0 {
			return nil
		}
		full := batch
		batch = nil
		return begin(full.Message(), full.Len())
	}
	for {
		m, err := next()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		if perBatch == 1 {
			if err := begin(m, 1); err != nil {
				return err
			}
			continue
		}
		if batch == nil {
			batch = empty()
		}
		if err := batch.Add(m); errors.Is(err, client.ErrBatchFull) && batch.Len() > 0 {
			if err := flush(); err != nil {
				return err
			}
			batch = empty()
			if err := batch.Add(m); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		if batch.Len() == perBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// outgoing returns the source of messages and their number; 0 means unknown.
func outgoing(c *cli.Context) (next func() (*amqp.Message, error), total int, done func(), err error) {
	if c.IsSet("message") {
		next, done, err = messageLines(c)
		return next, 0, done, err
	}
	properties, err := parseProperties(c.StringSlice("property"))
	if err != nil {
		return nil, 0, nil, usageError{err}
	}
	body, total, err := bodies(c)
	if err != nil {
		return nil, 0, nil, err
	}
	return func() (*amqp.Message, error) {
		b, err := body()
		if err != nil {
			return nil, err
		}
		return message(c, b, properties), nil
	}, total, func() {}, nil
}

// bodies returns the source of bodies and their number; 0 means unknown.
func bodies(c *cli.Context) (next func() ([]byte, error), total int, err error) {
	count := c.Int("count")
	var body []byte
	switch {
	case c.IsSet("body") && c.IsSet("body-file"):
		return nil, 0, usageError{errors.New("--body and --body-file cannot be used together")}
	case c.IsSet("body"):
		body = []byte(c.String("body"))
	case c.IsSet("body-file"):
		if body, err = os.ReadFile(c.String("body-file")); err != nil {
			return nil, 0, usageError{err}
		}
	case c.IsSet("count"):
		return nil, 0, usageError{errors.New("--count needs --body or --body-file; otherwise each line of standard input is sent once")}
	default:
		return newLineReader("standard input", os.Stdin, maxLine).body, 0, nil
	}
	return func() ([]byte, error) {
		if count == 0 {
			return nil, io.EOF
		}
		count--
		return body, nil
	}, count, nil
}

func message(c *cli.Context, body []byte, properties map[string]any) *amqp.Message {
	m := client.NewMessage(body)
	m.ApplicationProperties = properties
	if id := c.String("message-id"); id != "" {
		m.Properties.MessageID = id
	}
	for name, field := range map[string]**string{"session-id": &m.Properties.GroupID, "subject": &m.Properties.Subject, "content-type": &m.Properties.ContentType} {
		if c.IsSet(name) {
			value := c.String(name)
			*field = &value
		}
	}
	if id := c.String("correlation-id"); id != "" {
		m.Properties.CorrelationID = id
	}
	if at, _ := scheduledTime(c, time.Now()); !at.IsZero() { // checked by send
		m.Annotations = amqp.Annotations{"x-opt-scheduled-enqueue-time": at}
	}
	if ttl := program.DurationOf(c, "time-to-live"); ttl > 0 {
		m.Header = &amqp.MessageHeader{Durable: true, Priority: 4, TTL: ttl}
	}
	return m
}

// scheduledTime returns the time at which messages become active; zero: at once.
func scheduledTime(c *cli.Context, now time.Time) (time.Time, error) {
	at, in := c.String("schedule-at"), program.DurationOf(c, "schedule-in")
	switch {
	case at != "" && c.IsSet("schedule-in"):
		return time.Time{}, errors.New("--schedule-at and --schedule-in cannot be used together")
	case at != "":
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return t, fmt.Errorf("--schedule-at: %q is not a time such as 2027-01-31T08:00:00Z", at)
		}
		return t.UTC(), nil
	case c.IsSet("schedule-in"):
		if in <= 0 {
			return time.Time{}, errors.New("--schedule-in must be more than 0")
		}
		return now.Add(in).UTC(), nil
	}
	return time.Time{}, nil
}

// parseProperties reads NAME=VALUE and NAME:TYPE=VALUE.
func parseProperties(list []string) (map[string]any, error) {
	properties := make(map[string]any, len(list))
	for _, item := range list {
		name, value, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--property: %q is not NAME=VALUE", item)
		}
		name, kind, _ := cutLast(name, ":")
		var v any = value
		var err error
		switch kind {
		case "", "string":
		case "int":
			v, err = strconv.ParseInt(value, 10, 64)
		case "float":
			v, err = strconv.ParseFloat(value, 64)
		case "bool":
			v, err = strconv.ParseBool(value)
		case "uuid":
			var id uuid.UUID
			id, err = uuid.Parse(value)
			v = amqp.UUID(id)
		default:
			return nil, fmt.Errorf("--property: %q: unknown type %q; choose from string, int, float, bool, uuid", item, kind)
		}
		if err != nil {
			return nil, fmt.Errorf("--property: %q: %q is not a valid %s", item, value, kind)
		}
		properties[name] = v
	}
	if len(properties) == 0 {
		return nil, nil
	}
	return properties, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
