package servicebus

import (
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// errorTexts makes the texts of errors for the peer of a connection.
type errorTexts struct {
	tracking *tracking
	out      *output
}

// suffixed makes the text of an error for the peer: what it is about, the suffix of 8.4, and no
// more of either than its frames have room for beside everything else.
func (e *errorTexts) suffixed(text, entity string, now time.Time) string {
	n, m := e.room()
	return e.tracking.suffixed(message.Short(text, n), message.Short(entity, m), now)
}

// room is how many bytes of a text, and of what it is about, the peer's frames have room for.
func (e *errorTexts) room() (text, entity int) {
	room := min(int(e.out.maxFrame)-300, 4096)
	return 2 * room / 3, room / 3
}
