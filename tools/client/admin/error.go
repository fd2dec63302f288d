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

// Error is a refusal, or says that a request got no answer, or none that makes sense.
type Error struct {
	Op      string // what was asked, such as "create queue orders"
	Status  int    // of the answer; 0: there was none
	SubCode int    // of the service (2.10); 0: none was given
	Code    string // of a request that only this broker has, such as "conflict"; "": none was given
	Text    string // the broker's own words, without what only its operator can use
	Detail  string // all of the broker's words, with tracking id and time
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

// Unwrap returns the error of the network or of a document, if there was one.
func (e *Error) Unwrap() error { return e.cause }

// IsNotFound reports whether an error says that what was asked for does not exist.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsConflict reports whether an error says that what was to be created exists already, or that
// another request is changing it now.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

func hasStatus(err error, status int) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Status == status
}

var (
	subCode = regexp.MustCompile(`^SubCode=(\d{1,9})\.\s*`)
	// forOperators is the end of a text, which only the broker's operator can use.
	forOperators = regexp.MustCompile(`\s*(To know more visit \S+|TrackingId:)[\s\S]*$`)
)

// refusal makes an error of an answer (2.10); those to the broker's own requests are JSON. A proxy
// on the way may answer in another form: then only the status counts.
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

// oneLine is a text without line ends.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
