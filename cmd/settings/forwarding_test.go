package settings

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// S2-33 to S2-35, D-01: the sub-queue for messages that cannot be forwarded comes from the file,
// the environment or a flag.
func TestFailuresTo(t *testing.T) {
	t.Parallel()
	const word, variable = "forwarding.failures-to", "LEDGERBUS_FORWARDING_FAILURES_TO"
	file := write(t, "c.yaml", "forwarding:\n  failures-to: transfer-dead-letter\n", 0o644)
	for name, test := range map[string]struct {
		from Sources
		want event.SubQueue
	}{
		"default":     {Sources{}, event.DeadLetter},
		"file":        {Sources{File: file}, event.TransferDeadLetter},
		"environment": {Sources{File: file, Env: environment(variable, "dead-letter")}, event.DeadLetter},
		"flag":        {Sources{Env: environment(variable, "dead-letter"), Flags: map[string][]string{word: {"transfer-dead-letter"}}}, event.TransferDeadLetter},
	} {
		if s, err := Load(test.from); err != nil || s.FailuresTo != test.want {
			t.Errorf("%s: %v, %v; want s.FailuresTo == test.want", name, s.FailuresTo, err)
		}
	}
	_, err := Load(Sources{Flags: map[string][]string{word: {"nowhere"}}})
	if err == nil || !strings.Contains(err.Error(), `--forwarding-failures-to: "nowhere" is neither dead-letter nor transfer-dead-letter`) {
		t.Errorf("%+v; want err != nil && strings.Contains(err.Error(), `--forwarding-failures-to: \"nowhere\" is neither dead-letter nor transfer-dead-letter`)", err)
	}
}
