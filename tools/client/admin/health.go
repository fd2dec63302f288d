package admin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxHealth is how much of an answer about health is read, bytes.
const maxHealth = 4 << 10

// Health is what a broker says about itself to anybody: no token is needed.
type Health struct {
	Well bool      // the answer to what was asked is yes
	Code int       // status code of the answer
	Text string    // the answer as it came: JSON with the conditions that the broker is in
	Time time.Time // that its clock showed, to a second; zero: it does not say
}

// Health asks one of the questions that need no token: /health whether messages are taken, /livez,
// /readyz. No token is sent.
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
		return h, c.unanswered("health", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxHealth))
	if err != nil {
		return h, c.unanswered("health", err)
	}
	h.Well, h.Code, h.Text = res.StatusCode == http.StatusOK, res.StatusCode, strings.TrimSpace(string(text))
	h.Time, _ = http.ParseTime(res.Header.Get("Date")) // else it is zero
	return h, nil
}
