package servicebus

import (
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// errorTexts makes the error texts for the peer of a connection.
type errorTexts struct {
	tracking *trackingSuffix
	out      *output
}

// suffixed returns an error text for the peer: the subject and the suffix of 8.4, both shortened to
// what the peer's frames have room for.
func (e *errorTexts) suffixed(text, entity string, now time.Time) string {
	n, m := e.room()
	return e.tracking.suffixed(message.Short(text, n), message.Short(entity, m), now)
}

// room returns the bytes of a text, and of its subject, that the peer's frames have room for.
func (e *errorTexts) room() (text, entity int) {
	room := min(int(e.out.maxFrame)-300, 4096)
	return 2 * room / 3, room / 3
}
