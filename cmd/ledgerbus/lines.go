package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/Azure/go-amqp"
	"github.com/tidwall/gjson"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/tools/client"
)

const (
	// maxLine bounds a line that is a body, bytes: the largest message any tier takes.
	maxLine = 100 << 20
	// maxMessageLine bounds a line that is a message in JSON, in which bytes take up to a third
	// more.
	maxMessageLine = 2 * maxLine
)

// lines reads a file line by line. Its errors name the line.
type lines struct {
	name   string
	in     *bufio.Scanner
	most   int // bytes of a line
	number int // of the line that was read last
}

func newLines(name string, in io.Reader, most int) *lines {
	l := &lines{name: name, in: bufio.NewScanner(in), most: most}
	l.in.Buffer(nil, most)
	return l
}

// next returns the next line, which is valid until the one after it is read, or [io.EOF].
func (l *lines) next() ([]byte, error) {
	l.number++
	if l.in.Scan() {
		return l.in.Bytes(), nil
	}
	err := l.in.Err()
	switch {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, l.wrong(fmt.Errorf("longer than %d bytes", l.most))
	}
	return nil, l.wrong(err)
}

// wrong is an error about the line that was read last.
func (l *lines) wrong(err error) error {
	return usageError{fmt.Errorf("%s, line %d: %w", l.name, l.number, err)}
}

// body returns the next line as the body of a message. A line that is a message itself, as receive
// and peek print it, is refused: it would become the body of another one.
func (l *lines) body() ([]byte, error) {
	line, err := l.next()
	if err != nil {
		return nil, err
	}
	if printedMessage(line) {
		return nil, l.wrong(errors.New("this line is a message as printed by peek and receive: use --message - to send that message, or --body to send the text as it is"))
	}
	// its own copy: it is in flight while the next line is read
	return append([]byte{}, line...), nil
}

// printedMessage reports whether a text is a message that peek or receive printed.
func printedMessage(line []byte) bool {
	if len(line) == 0 || line[0] != '{' || !gjson.ValidBytes(line) {
		return false
	}
	for _, member := range gjson.GetManyBytes(line, "sequenceNumber", "deliveryCount", "body") {
		if !member.Exists() {
			return false
		}
	}
	return true
}

// message returns the next message in JSON. Lines without anything are passed over.
func (l *lines) message() (*amqp.Message, error) {
	line, err := l.next()
	for err == nil && len(line) == 0 {
		line, err = l.next()
	}
	if err != nil {
		return nil, err
	}
	m, err := client.ParseMessage(line)
	if err != nil {
		return nil, l.wrong(err)
	}
	return m, nil
}

// shaping are the flags that say what messages are like.
var shaping = []string{"body", "body-file", "count", "property", "message-id", "session-id", "subject", "content-type", "correlation-id", "time-to-live", "schedule-at", "schedule-in"}

// messageLines reads the messages of --message.
func messageLines(c *cli.Context) (next func() (*amqp.Message, error), done func(), err error) {
	for _, name := range shaping {
		if c.IsSet(name) {
			return nil, nil, usageError{fmt.Errorf("--%s and --message exclude each other: the lines of --message describe complete messages", name)}
		}
	}
	name := c.String("message")
	if name == "-" {
		return newLines("standard input", os.Stdin, maxMessageLine).message, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--message: %w", err)}
	}
	// it was only read
	return newLines(name, f, maxMessageLine).message, func() { _ = f.Close() }, nil
}
