package settings

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/host"
)

// Fingerprint tells different settings apart: equal ones have equal fingerprints, whatever file,
// flag or variable they came from. Keys do not count, so that nobody can test guesses at a key with
// it; nor do the version, how much memory the machine has, and the decision about the clock, which
// are no settings.
func (s Settings) Fingerprint() string {
	s.Version, s.MemoryBudget, s.Clock.Accept = "", 0, host.AcceptNone
	text, err := json.Marshal(s) // keys are *** in it
	if err != nil {
		panic(fmt.Sprintf("settings: %v", err)) // nothing in them is without a form in JSON
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("sha256:%x", sum[:8])
}
