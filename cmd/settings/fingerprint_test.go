package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The fingerprint changes with each setting, and with no key.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	made := func(change ...func(*Settings)) Settings {
		s := defaults()
		s.Access = []AccessRule{{Name: "app", Rights: []Right{Send}, Primary: NewSecret("MARKER-p")}}
		queue := put(event.Queue, "q", func(p *event.Properties) {
			p.AccessRules = []event.AccessRule{{Name: "till", Primary: "MARKER-q"}}
		})
		s.Entities.Put = []engine.PutEntity{queue}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	plain := made().Fingerprint()
	if !strings.HasPrefix(plain, "sha256:") || len(plain) != len("sha256:")+16 {
		t.Errorf("it is %q", plain)
	}
	for name, same := range map[string]func(*Settings){
		"nothing":       func(*Settings) {},
		"a version":     func(s *Settings) { s.Version = "1.2.3" },
		"a key":         func(s *Settings) { s.Access[0].Primary = NewSecret("MARKER-other") },
		"an entity key": func(s *Settings) { s.Entities.Put[0].Properties.AccessRules[0].Primary = "MARKER-other" },
		"a word about the clock": func(s *Settings) {
			s.Clock.Accept = host.AcceptWall
		},
		"a note":                  func(s *Settings) { s.Notes = []Note{{Old: "never"}} },
		"where an entity is from": func(s *Settings) { s.Entities.where = map[string]string{"q": "file.json:3"} },
	} {
		if got := made(same).Fingerprint(); got != plain {
			t.Errorf("%s makes it %s instead of %s", name, got, plain)
		}
	}
	seen := map[string]string{plain: "none"}
	for name, other := range map[string]func(*Settings){
		"mode":       func(s *Settings) { s.Mode = Production },
		"data":       func(s *Settings) { s.Storage.Data = "elsewhere" },
		"reserve":    func(s *Settings) { s.Storage.Reserve++ },
		"gap":        func(s *Settings) { s.Clock.MaxGap = time.Hour },
		"address":    func(s *Settings) { s.Listening.Addresses = []string{"127.0.0.1:0"} },
		"rights":     func(s *Settings) { s.Access[0].Rights = []Right{Listen} },
		"limit":      func(s *Settings) { s.Limits.Locked = 7 },
		"entity":     func(s *Settings) { s.Entities.Put[0].Properties.MaxDeliveryCount++ },
		"no entity":  func(s *Settings) { s.Entities.Put = nil },
		"identities": func(s *Settings) { s.Identity.Issuer = "https://login.example" },
		"log level":  func(s *Settings) { s.Logging.Level++ },
	} {
		got := made(other).Fingerprint()
		if before, twice := seen[got]; twice {
			t.Errorf("%s has the fingerprint of %s", name, before)
		}
		seen[got] = name
	}
}
