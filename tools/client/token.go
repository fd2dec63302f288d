package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"time"
)

const (
	tokenLife  = time.Hour
	tokenRenew = tokenLife * 3 / 4
)

// Token returns a shared access signature for an audience, the URL of an entity or of the namespace
// (wire-protocol 2.5). It is valid for an hour from now. If the connection string contains a
// ready-made signature instead of a key, Token returns that one.
func (cs ConnectionString) Token(audience string, now time.Time) string {
	if cs.signature != "" {
		return cs.signature
	}
	resource, expiry := url.QueryEscape(audience), strconv.FormatInt(now.Add(tokenLife).Unix(), 10)
	mac := hmac.New(sha256.New, []byte(cs.key))
	mac.Write([]byte(resource + "\n" + expiry))
	sig := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return "SharedAccessSignature sr=" + resource + "&sig=" + url.QueryEscape(sig) + "&se=" + expiry + "&skn=" + url.PathEscape(cs.KeyName)
}
