package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// SASPrefix begins every shared access signature.
	SASPrefix = "SharedAccessSignature "

	maxSAS    = 4 << 10
	maxExpiry = 253402300799 // last second of year 9999
)

// A sasToken has the fields of a shared access signature as they are in the token (reliability.md
// S5).
type sasToken struct {
	resource  string // sr, still percent-encoded, as it was signed
	signature string // sig, percent-decoded
	expiry    string // se
	rule      string // skn, percent-decoded
}

// parseSAS splits a token into its fields. Each must occur exactly once, in any order, and there
// may be no others.
func parseSAS(token string) (sasToken, error) {
	var t sasToken
	if len(token) > maxSAS || !strings.HasPrefix(token, SASPrefix) {
		return t, ErrMalformed
	}
	seen := 0
	for field := range strings.SplitSeq(token[len(SASPrefix):], "&") {
		key, value, ok := strings.Cut(field, "=")
		if !ok || value == "" {
			return t, ErrMalformed
		}
		bit := 0
		var err error
		switch key {
		case "sr":
			bit, t.resource = 1, value
		case "sig":
			bit = 2
			// keeps a literal +, as wire-protocol.md 2.5 requires
			t.signature, err = url.PathUnescape(value)
		case "se":
			bit, t.expiry = 4, value
		case "skn":
			bit, t.rule = 8, decodeStable(value)
		}
		if bit == 0 || seen&bit != 0 || err != nil {
			return t, ErrMalformed
		}
		seen |= bit
	}
	if seen != 15 {
		return t, ErrMalformed
	}
	return t, nil
}

// decodeStable percent-decodes a rule name until it no longer changes: SDKs encode it once, twice
// or not at all (wire-protocol.md 2.5).
func decodeStable(s string) string {
	for range 3 {
		d, err := url.PathUnescape(s)
		if err != nil || d == s {
			break
		}
		s = d
	}
	return s
}

// expires parses se without overflow (reliability.md S8).
func (t *sasToken) expires() (time.Time, error) {
	if len(t.expiry) > 12 {
		return time.Time{}, ErrMalformed
	}
	n, err := strconv.ParseUint(t.expiry, 10, 63)
	if err != nil || n > maxExpiry {
		return time.Time{}, ErrMalformed
	}
	return time.Unix(int64(n), 0), nil
}

// signedBy reports whether a key made the signature. It compares in constant time.
func (t *sasToken) signedBy(key event.Secret) bool {
	sum := sign(t.resource, t.expiry, key.Reveal())
	want := make([]byte, base64.StdEncoding.EncodedLen(len(sum)))
	base64.StdEncoding.Encode(want, sum)
	return hmac.Equal(want, []byte(t.signature))
}

// sign returns the signature of a resource and an expiry in the form that the token has. The key is
// the bytes of its text (S7).
func sign(resource, expiry, key string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(resource))
	mac.Write([]byte{'\n'})
	mac.Write([]byte(expiry))
	return mac.Sum(nil)
}
