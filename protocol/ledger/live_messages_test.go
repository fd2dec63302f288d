package ledger

import (
	"net/url"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present"
)

// Columns need the right to read history, and messages that to read bodies.
func TestMessagesNeedRights(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.h.(*handler).Present = present.New(nil, time.Now)
	auditor := sign("sb://"+host, "auditor", readKey)
	for _, c := range []struct{ query, says string }{
		{"where=" + url.QueryEscape("body.x = 1"), "lacks the right ReadBodies"},
		{"where=" + url.QueryEscape("state = 'active' AND user.x = 1"), "lacks the right ReadBodies"},
		{"bodies=true", "lacks the right ReadBodies"},
		{"where=" + url.QueryEscape("x = 1"), "Where: condition: character 1: unknown column x; the columns are sequenceNumber, "},
		{"state=dead", "Unknown state"},
		{"top=201", "Top is 201"},
		{"from=-1", "Parameter from is"},
		{"bodies=perhaps", "Parameter bodies is"},
		{"entity=other", "Parameter entity is given 2 times"},
		{"after=1", "This request has no parameter"},
	} {
		code, class := 400, "invalid"
		if c.says == "lacks the right ReadBodies" {
			code, class = 403, "forbidden"
		}
		a.refused(a.do("GET", "/$ledger/v1/messages?entity=orders&"+c.query, "", "Authorization", auditor), code, class, c.says)
	}
}
