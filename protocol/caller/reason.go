package caller

import (
	"net/http"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Headers for the reason of a change, and for the caller's own id of the request, which its own log
// may have.
const (
	ReasonHeader  = "X-Ledgerbus-Reason"
	RequestHeader = "x-ms-client-request-id"
)

const maxRequestID = 256 // bytes

// Why returns the reason that a request gives for its change. An error is an [*engine.Error], which
// refuses the request.
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

// RequestID returns the caller's id of a request; "": there is none, or it is not a valid id.
func RequestID(r *http.Request) string {
	id := r.Header.Get(RequestHeader)
	if len(id) > maxRequestID || !utf8.ValidString(id) {
		return ""
	}
	return id
}
