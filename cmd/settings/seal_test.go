package settings

import (
	"strings"
	"testing"
	"time"
)

// The time until a chapter is sealed comes from flag, environment or file. Ten minutes are the
// default, and 0s means at once.
func TestSealAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"never": 0, "unlimited": 0, "0s": -1, "0": -1, "10m": 10 * time.Minute, "8760h": 8760 * time.Hour} {
		s, err := Load(Sources{File: write(t, "c.yaml", "seal-after: 1h\n", 0o644), Flags: map[string][]string{"seal-after": {text}}})
		if err != nil || s.Storage.SealAfter != want {
			t.Errorf("%s: %v, %v; want s.Storage.SealAfter == want", text, s.Storage.SealAfter, err)
		}
	}
	if s, err := Load(Sources{}); err != nil || s.Storage.SealAfter != 10*time.Minute {
		t.Errorf("by default: %v, %v", s.Storage.SealAfter, err)
	}
	if s, err := Load(Sources{Env: environment("LEDGERBUS_SEAL_AFTER", "1h")}); err != nil || s.Storage.SealAfter != time.Hour {
		t.Errorf("from the environment: %v, %v", s.Storage.SealAfter, err)
	}
	for _, text := range []string{"-1s", "8761h", "soon", "10", ""} {
		if _, err := Load(Sources{Flags: map[string][]string{"seal-after": {text}}}); err == nil || !strings.Contains(err.Error(), "--seal-after") {
			t.Errorf(`%q: %v; want err != nil && strings.Contains(err.Error(), "--seal-after")`, text, err)
		}
	}
}
