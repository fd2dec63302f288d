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
	// maxLine is the maximum length in bytes of a line that is a body: the largest message of any
	// tier.
	maxLine = 100 << 20
	// maxMessageLine is the maximum length of a line that is a message in JSON, in which bytes take
	// up to a third more.
	maxMessageLine = 2 * maxLine
)

// A lineReader reads a file line by line. Its errors name the line.
type lineReader struct {
	name   string
	in     *bufio.Scanner
	most   int // maximum bytes of a line
	number int // of the last line read
}

func newLineReader(name string, in io.Reader, most int) *lineReader {
	l := &lineReader{name: name, in: bufio.NewScanner(in), most: most}
	l.in.Buffer(nil, most)
	return l
}

// next returns the next line, which is valid until the following call, or [io.EOF].
func (l *lineReader) next() ([]byte, error) {
	l.number++
	if l.in.Scan() {
		return l.in.Bytes(), nil
	}
	err := l.in.Err()
	switch {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, l.lineError(fmt.Errorf("longer than %d bytes", l.most))
	}
	return nil, l.lineError(err)
}

// lineError returns an error about the last line read.
func (l *lineReader) lineError(err error) error {
	return usageError{fmt.Errorf("%s, line %d: %w", l.name, l.number, err)}
}

// body returns the next line as the body of a message. It refuses a line that is itself a printed
// message, as receive and peek print it: that message would become the body of another one.
func (l *lineReader) body() ([]byte, error) {
	line, err := l.next()
	if err != nil {
		return nil, err
	}
	if printedMessage(line) {
		return nil, l.lineError(errors.New("this line is a message as printed by peek and receive: use --message - to send that message, or --body to send the text as it is"))
	}
	// a copy, because it is in flight while the next line is read
	return append([]byte{}, line...), nil
}

// printedMessage reports whether a text is a message printed by peek or receive.
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

// message returns the next message in JSON and skips empty lines.
func (l *lineReader) message() (*amqp.Message, error) {
	line, err := l.next()
	for err == nil && len(line) == 0 {
		line, err = l.next()
	}
	if err != nil {
		return nil, err
	}
	m, err := client.ParseMessage(line)
	if err != nil {
		return nil, l.lineError(err)
	}
	return m, nil
}

// messageFlags are the flags that describe messages.
var messageFlags = []string{"body", "body-file", "count", "property", "message-id", "session-id", "subject", "content-type", "correlation-id", "time-to-live", "schedule-at", "schedule-in"}

// messageLines reads the messages of --message.
func messageLines(c *cli.Context) (next func() (*amqp.Message, error), done func(), err error) {
	for _, name := range messageFlags {
		if c.IsSet(name) {
			return nil, nil, usageError{fmt.Errorf("--%s and --message cannot be used together: the lines of --message describe complete messages", name)}
		}
	}
	name := c.String("message")
	if name == "-" {
		return newLineReader("standard input", os.Stdin, maxMessageLine).message, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--message: %w", err)}
	}
	// only reads
	return newLineReader(name, f, maxMessageLine).message, func() { _ = f.Close() }, nil
}
