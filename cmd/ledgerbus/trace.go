package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
)

// mostTraced is the maximum size of a message file in bytes; its body is omitted.
const mostTraced = 1 << 20

func traceCommand() *cli.Command {
	return &cli.Command{
		Name:      "trace",
		Usage:     "show which rules of a topic match a message, and why the others do not; nothing is sent",
		ArgsUsage: "TOPIC --message FILE",
		Description: "Evaluates the current rules as for a message that is sent. For a rule that matches, shows the changes of its\n" +
			"action; for any other rule, the first part of the condition that is not true, with its values.\n\n" +
			"The message is a JSON object as receive and peek print it with -o json. Rules see messageId, sessionId,\n" +
			"subject, contentType, correlationId, to, replyTo, replyToSessionId, partitionKey, timeToLive (PT1H), and\n" +
			"properties. Property values are texts, numbers, true, false, null, or values with a type, such as\n" +
			"{\"type\": \"time\", \"value\": \"2026-11-03T03:12:00Z\"} (string, bool, int, long, double, decimal, uuid, time, duration).\n\n" +
			"   ledgerbus trace weather --message m.json\n" +
			"   echo '{\"properties\": {\"wind\": 17}}' | ledgerbus trace weather --message -" + dataHelp,
		Flags: historyFlags(&cli.StringFlag{Name: "message", Usage: "file with the message, - for standard input"}),
		Action: func(c *cli.Context) error {
			says := url.Values{}
			if c.IsSet("message") {
				m, err := messageFile(c)
				if err != nil {
					return usageError{fmt.Errorf("--message: %w", err)}
				}
				says.Set("message", m)
			}
			q, err := question(c, "trace", says, "entity")
			if err != nil {
				return err
			}
			return printQuestion(c, q)
		},
	}
}

// messageFile returns the part of the message in a file that rules see, as JSON.
func messageFile(c *cli.Context) (string, error) {
	var in io.Reader = c.App.Reader
	if name := c.String("message"); name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, mostTraced+1))
	if err != nil {
		return "", err
	}
	if len(text) > mostTraced {
		return "", fmt.Errorf("longer than %d bytes", mostTraced)
	}
	s, err := ledger.ParseSketch(text)
	if err != nil {
		return "", err
	}
	seen, err := json.Marshal(&s)
	return string(seen), err
}
