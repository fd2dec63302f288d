package amqp

import "fmt"

// SASLMechanisms offers login mechanisms, in order of preference (AMQP 5.3.3.1).
type SASLMechanisms struct {
	// Mechanisms is written as an array of sym32, as the real service does (wire-protocol 1.5).
	Mechanisms []Symbol
}

// SASLInit chooses a mechanism (AMQP 5.3.3.2).
type SASLInit struct {
	Mechanism       Symbol
	InitialResponse Secret // nil means null; may hold a password
	Hostname        string // "" means null
}

// SASLChallenge requests more data (AMQP 5.3.3.3). No offered mechanism needs it; it is decoded so
// that errors can name it.
type SASLChallenge struct{ Challenge Secret }

// SASLResponse answers a challenge (AMQP 5.3.3.4).
type SASLResponse struct{ Response Secret }

// Secret is the secret data of a login. Printed or marshalled, alone or inside a performative, it
// shows only its length, so that no log can contain it (reliability S31).
type Secret []byte

// Format writes "(<n> bytes)", whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "(%d bytes)", len(s)) }

// MarshalText returns what Format writes.
func (s Secret) MarshalText() ([]byte, error) { return fmt.Append(nil, s), nil }

// SASLCode is the result of a login.
type SASLCode uint8

// The results (AMQP 5.3.3.6).
const (
	SASLOK      SASLCode = 0
	SASLAuth    SASLCode = 1 // wrong credentials
	SASLSys     SASLCode = 2 // a fault of the server
	SASLSysPerm SASLCode = 3 // a permanent one
	SASLSysTemp SASLCode = 4 // a temporary one
)

// SASLOutcome ends the login (AMQP 5.3.3.5). Both fields are always written: one client formats
// both (wire-protocol 1.5).
type SASLOutcome struct {
	Code           SASLCode
	AdditionalData []byte // nil means null
}
