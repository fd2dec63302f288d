package client

import (
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/access"
)

const (
	tokenLife  = time.Hour
	tokenRenew = tokenLife * 3 / 4
)

// Token is a shared access signature for an audience, the URL of an entity or of the namespace, good for an hour from now; the
// ready-made one, if the connection string has that in place of a key.
func (cs ConnectionString) Token(audience string, now time.Time) string {
	if cs.signature != "" {
		return cs.signature
	}
	return access.NewSASToken(audience, cs.KeyName, cs.key, now.Add(tokenLife))
}
