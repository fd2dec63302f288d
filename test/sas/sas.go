// Package sas signs shared access signatures for tests of the code that verifies them.
package sas

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"time"
)

// Token is a shared access signature for a resource, signed with the key of an access rule as the
// SDKs do (wire-protocol.md 2.5).
func Token(resource, rule, key string, expires time.Time) string {
	sr, se := url.QueryEscape(resource), strconv.FormatInt(expires.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(sr + "\n" + se))
	sig := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return "SharedAccessSignature sr=" + sr + "&sig=" + url.QueryEscape(sig) + "&se=" + se + "&skn=" + url.PathEscape(rule)
}
