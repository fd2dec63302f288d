package settings

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// Initial returns a config file to begin with: production mode, and a rule with two random keys of
// 256 bits (reliability.md S3). [Load] refuses the file if others than its owner can read it.
func Initial() ([]byte, error) {
	var keys [2]string
	for i := range keys {
		var key [32]byte
		if _, err := rand.Read(key[:]); err != nil {
			return nil, err
		}
		keys[i] = base64.StdEncoding.EncodeToString(key[:])
	}
	return fmt.Appendf(nil, initial, developmentRule, keys[0], keys[1]), nil
}

// initial has three placeholders: the rule's name and its keys.
const initial = `# Settings of a Ledgerbus broker: start it with "ledgerbus serve --config" and this file. docs/guide/settings.md lists all settings.
# This file contains keys: only its owner may be able to read it (mode 0600).

mode: production
data: data

# To let other machines connect, give a certificate:
#   listen: [0.0.0.0:5671/tls, 0.0.0.0:443/tls]
#   hosts: [bus.example]
#   tls: {certificate-file: bus.crt, key-file: bus.key}
listen: [127.0.0.1:5672]

# A client with one of the keys of a rule has the rule's rights: Manage, Send, Listen, ReadHistory, ReadBodies. To replace a key without a break, copy the
# primary to the secondary, write a new primary, send the broker SIGHUP, move the clients, and then replace the secondary.
access-rules:
- name: %s
  rights: [Manage, Send, Listen]
  primary-key: %s
  secondary-key: %s
`
