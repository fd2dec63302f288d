package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// askStall is the longest time without data before an answer is given up. A broker that is still
// working on an answer sends a sign of life.
const askStall = time.Minute

// Ask asks a question about the past by its verb and its values, and calls told with each line of
// the answer as it arrives. The fields of a line are valid until told returns. An error of told
// ends the answer and is returned.
func (c *Client) Ask(ctx context.Context, verb string, says url.Values, told func(*wire.Line) error) error {
	return c.lines(ctx, request{op: verb, method: http.MethodGet, path: wire.Prefix[1:] + "/v1/" + verb, query: says, own: true}, told)
}

// lines makes a request whose answer arrives line by line.
func (c *Client) lines(ctx context.Context, r request, told func(*wire.Line) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(askStall, func() { cancel(context.DeadlineExceeded) })
	defer watch.Stop()
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return &Error{Op: r.op, Text: err.Error(), cause: err}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.noAnswer(r.op, err)
	}
	defer res.Body.Close()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode != http.StatusOK || kind != wire.LinesType {
		src, err := io.ReadAll(io.LimitReader(res.Body, int64(document.ResponseLimits.Bytes)+1))
		switch {
		case err != nil:
			return c.noAnswer(r.op, err)
		case res.StatusCode == http.StatusOK:
			return explainForeign(invalidAnswer(r.op, fmt.Errorf("unexpected content type %q", kind)), src)
		}
		return explainForeign(refusal(r.op, res.StatusCode, src), src)
	}
	return readLines(r.op, watchedBody{ctx, res.Body, watch, askStall}, told)
}

// readLines reads the lines of an answer to its end.
func readLines(op string, body io.Reader, told func(*wire.Line) error) error {
	in := bufio.NewScanner(body)
	in.Buffer(make([]byte, 64<<10), wire.MaxLine)
	var l wire.Line
	for in.Scan() {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		if err := wire.ReadLine(in.Bytes(), &l); err != nil {
			return invalidAnswer(op, err)
		}
		switch l.Part {
		case wire.End:
			return nil
		case wire.Failed:
			return &Error{Op: op, Code: l.Code, Text: oneLine(l.Text)}
		case wire.Waiting:
			continue
		}
		if err := told(&l); err != nil {
			return err
		}
	}
	err := in.Err()
	switch {
	case err == nil:
		err = io.ErrUnexpectedEOF
	case errors.Is(err, context.Canceled):
		return &Error{Op: op, Text: "canceled before the answer was complete", cause: err}
	case errors.Is(err, bufio.ErrTooLong):
		return invalidAnswer(op, err)
	}
	return &Error{Op: op, Text: fmt.Sprintf("the answer was interrupted: %v", err), cause: err}
}
