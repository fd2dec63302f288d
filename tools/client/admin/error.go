package admin

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// An Error reports that a request was refused, or got no answer or an invalid one.
type Error struct {
	Op      string // operation, such as "create queue orders"
	Status  int    // of the answer; 0: no answer
	SubCode int    // of the service (2.10); 0: none
	Code    string // of a request that only Ledgerbus has, such as "conflict"; "": none
	Text    string // the broker's text, without the part for its operator
	Detail  string // the broker's complete text, with tracking id and time
	cause   error
}

// Error returns the error as one line.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Text
	switch {
	case e.SubCode != 0:
		text += fmt.Sprintf(" (status %d, sub-code %d)", e.Status, e.SubCode)
	case e.Status != 0:
		text += fmt.Sprintf(" (status %d)", e.Status)
	}
	return text
}

// Unwrap returns the underlying error of the network or of a document, if any.
func (e *Error) Unwrap() error { return e.cause }

// IsNotFound reports whether an error says that the requested item does not exist.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsConflict reports whether an error says that the item to create exists already, or that another
// request is changing it.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

func hasStatus(err error, status int) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Status == status
}

var (
	subCode = regexp.MustCompile(`^SubCode=(\d{1,9})\.\s*`)
	// forOperators matches the end of a text that only the broker's operator can use.
	forOperators = regexp.MustCompile(`\s*(To know more visit \S+|TrackingId:)[\s\S]*$`)
)

// refusal returns the error for an answer (2.10). Answers to requests that only Ledgerbus has are
// JSON. A proxy may answer in another form; then only the status counts.
func refusal(op string, status int, body []byte) error {
	e := &Error{Op: op, Status: status, Text: http.StatusText(status)}
	var own wire.Failure
	if wire.Answer(body, &own) == nil && own.Error.Message != "" {
		e.Code, e.Text, e.Detail = own.Error.Code, oneLine(own.Error.Message), own.Error.Message
		return e
	}
	doc, err := document.Parse(body, document.Options{Limits: document.ResponseLimits})
	if err != nil || doc.Error == nil {
		return e
	}
	e.Detail = doc.Error.Detail
	text := forOperators.ReplaceAllString(e.Detail, "")
	if m := subCode.FindStringSubmatch(text); m != nil {
		e.SubCode, _ = strconv.Atoi(m[1]) // at most nine digits
		text = text[len(m[0]):]
	}
	if text = strings.Join(strings.Fields(text), " "); text != "" {
		e.Text = text
	}
	return e
}

// oneLine returns a text without line ends.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
