package settings

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/host"
)

// Fingerprint returns a short text that differs for different settings. Equal ones have equal
// fingerprints, whatever file, flag or variable they came from. Keys do not count, so a fingerprint
// cannot confirm a guessed key. The version, the machine's memory and the decision about the clock
// are not settings, and do not count either.
func (s Settings) Fingerprint() string {
	s.Version, s.MemoryBudget, s.Clock.Accept = "", 0, host.AcceptNone
	text, err := json.Marshal(s) // keys are *** in it
	if err != nil {
		panic(fmt.Sprintf("settings: %v", err)) // every field has a form in JSON
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("sha256:%x", sum[:8])
}
