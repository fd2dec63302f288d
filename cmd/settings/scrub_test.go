package settings

import (
	"testing"
	"time"
)

func TestScrubEvery(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"never": 0, "unlimited": 0, "7d": 168 * time.Hour, "36h": 36 * time.Hour, "1h": time.Hour, "365d": 8760 * time.Hour} {
		if s, err := Load(Sources{Flags: map[string][]string{"scrub-every": {text}}}); err != nil || s.Storage.ScrubEvery != want {
			t.Errorf("%s: %v, %v; want s.Storage.ScrubEvery == want", text, s.Storage.ScrubEvery, err)
		}
	}
	if s, err := Load(Sources{}); err != nil || s.Storage.ScrubEvery != 168*time.Hour {
		t.Errorf("by default: %v, %v", s.Storage.ScrubEvery, err)
	}
	for _, text := range []string{"", "0s", "59m", "366d", "-1d", "soon", "d"} {
		if _, err := Load(Sources{Flags: map[string][]string{"scrub-every": {text}}}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
