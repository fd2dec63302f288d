package caller

import (
	"net/http"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Headers that say why something is changed, and under which name the caller has the request in a
// log of its own.
const (
	ReasonHeader  = "X-Ledgerbus-Reason"
	RequestHeader = "x-ms-client-request-id"
)

const maxRequestID = 256 // bytes

// Why returns the reason that a request gives for the change it asks for. An error is an
// [*engine.Error], which refuses the request.
func Why(r *http.Request) (why event.ReasonGiven, err error) {
	given := r.Header.Values(ReasonHeader)
	if len(given) > 1 {
		return why, engine.Refuse(engine.InvalidArgument, "The request has more than one header %s.", ReasonHeader)
	}
	why.Reason = r.Header.Get(ReasonHeader)
	if err := engine.CheckReason(why.Reason); err != nil {
		return why, engine.Refuse(err.Code, "%s: %s", ReasonHeader, err.Text)
	}
	why.TrackingID = RequestID(r)
	return why, nil
}

// RequestID is the caller's name of a request; "": it has none, or none that could be a name.
func RequestID(r *http.Request) string {
	id := r.Header.Get(RequestHeader)
	if len(id) > maxRequestID || !utf8.ValidString(id) {
		return ""
	}
	return id
}
