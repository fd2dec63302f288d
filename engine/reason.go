package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A caller that changes something by hand may give a reason. The reason is in the record of the
// change, so it is read together with it. A command takes the reason as the event that it becomes,
// whose envelope is filled in later; the zero value is no reason.

// CheckReason refuses a reason that is not one line of at most [event.MaxReason] bytes of UTF-8.
func CheckReason(reason string) *Error {
	switch {
	case len(reason) > event.MaxReason:
		return Refuse(InvalidArgument, "The reason has %d bytes; at most %d are allowed.", len(reason), event.MaxReason)
	case !utf8.ValidString(reason), strings.ContainsFunc(reason, unicode.IsControl):
		return Refuse(InvalidArgument, "The reason must be one line of UTF-8.")
	}
	return nil
}

// because adds the reason of a change whose events are already in the record, if there is a reason.
func (d *decision) because(why event.ReasonGiven, of event.Envelope) {
	if why.Reason == "" && why.TrackingID == "" {
		return
	}
	ev := add[*event.ReasonGiven](d, event.KindReasonGiven)
	ev.Envelope, ev.Reason, ev.TrackingID = of, clipTo(why.Reason, event.MaxReason), clipTo(why.TrackingID, event.MaxReason)
}
