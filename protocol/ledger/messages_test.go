package ledger

import (
	"fmt"
	"strings"
	"testing"
)

// A body is erased by entity and number, with the reason; other arguments are refused.
func TestEraseMessage(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for body, want := range map[string]string{
		`{"entity":"orders","sequence":17}`: `200 {"entity":"orders","sequence":17,"bytes":300}`,
		`{"entity":"orders","sequence":8}`:  `200 {"entity":"orders","sequence":8,"bytes":300,"before":true}`,
		``:                                  `400 {"error":{"code":"invalid","message":"Missing or invalid message; `,
		`{"entity":"orders"}`:               `400 {"error":{"code":"invalid","message":"Missing or invalid message; `,
		`{"sequence":17}`:                   `400 {"error":{"code":"invalid","message":"Missing or invalid message; `,
		`{"entity":"orders","sequence":-1}`: `400 {"error":{"code":"invalid","message":"Missing or invalid message; `,
		`{"entity":"orders","sequence":17,"all":true}`: `400 {"error":{"code":"invalid","message":"The body cannot be read`,
	} {
		w := a.do("POST", "/$ledger/v1/messages/erase", body)
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
