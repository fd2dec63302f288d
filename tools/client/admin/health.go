package admin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxHealth is the number of bytes of an answer about health that are read.
const maxHealth = 4 << 10

// A Health is a broker's report about itself. It needs no token.
type Health struct {
	Well bool      // the answer is yes
	Code int       // status code of the answer
	Text string    // the unchanged answer: JSON with the conditions of the broker
	Time time.Time // of the broker's clock, to a second; zero: unknown
}

// Health makes one of the requests that need no token: /health, which reports whether messages are
// accepted, /livez, or /readyz. It sends no token.
func (c *Client) Health(ctx context.Context, path string) (h Health, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	of := c.base
	of.Path = path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, of.String(), nil)
	if err != nil {
		return h, &Error{Op: "health", Text: err.Error(), cause: err}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return h, c.noAnswer("health", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxHealth))
	if err != nil {
		return h, c.noAnswer("health", err)
	}
	h.Well, h.Code, h.Text = res.StatusCode == http.StatusOK, res.StatusCode, strings.TrimSpace(string(text))
	h.Time, _ = http.ParseTime(res.Header.Get("Date")) // else it is zero
	return h, nil
}
