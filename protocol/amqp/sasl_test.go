package amqp

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// S31: no printed form shows a login secret.
func TestSecretsAreNotPrinted(t *testing.T) {
	for _, v := range []any{
		Secret("secret"),
		&SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00user\x00secret")},
		SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00user\x00secret")},
		&SASLResponse{Response: []byte("secret")},
		&SASLChallenge{Challenge: []byte("secret")},
	} {
		var printed strings.Builder
		for _, format := range []string{"%v", "%+v", "%s", "%q", "%#v", "%d", "%x"} {
			fmt.Fprintf(&printed, format+"\n", v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(text)
		slog.New(slog.NewTextHandler(&printed, nil)).Info("", "v", v)
		slog.New(slog.NewJSONHandler(&printed, nil)).Info("", "v", v)
		// As text, as numbers, in hexadecimal, as Go source, and in base64.
		for _, secret := range []string{"secret", "115 101", "736563", "0x73, 0x65", "c2Vjcm", "AHVzZX"} {
			if strings.Contains(printed.String(), secret) {
				t.Errorf("%T shows %q:\n%s", v, secret, printed.String())
			}
		}
		if n := strings.Count(printed.String(), " bytes)"); n < 10 {
			t.Errorf("%T: %d lengths in\n%s", v, n, printed.String())
		}
	}
}
