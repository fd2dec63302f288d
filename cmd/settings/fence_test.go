package settings

import (
	"strings"
	"testing"
)

// F9: on-io-error comes from flag, environment or file, in this order.
func TestOnIOError(t *testing.T) {
	t.Parallel()
	const word, variable = "on-io-error", "LEDGERBUS_ON_IO_ERROR"
	file := write(t, "c.yaml", "on-io-error: fence\n", 0o644)
	for name, test := range map[string]struct {
		from  Sources
		fence bool
	}{
		"default":     {Sources{}, false},
		"file":        {Sources{File: file}, true},
		"environment": {Sources{File: file, Env: environment(variable, "exit")}, false},
		"flag":        {Sources{File: file, Env: environment(variable, "exit"), Flags: map[string][]string{word: {"fence"}}}, true},
	} {
		if s, err := Load(test.from); err != nil || s.Storage.Fence != test.fence {
			t.Errorf("%s: %v, %v; want s.Storage.Fence == test.fence", name, s.Storage.Fence, err)
		}
	}
	_, err := Load(Sources{Flags: map[string][]string{word: {"retry"}}})
	if err == nil || !strings.Contains(err.Error(), `--on-io-error: "retry" is neither exit nor fence`) {
		t.Errorf("retry: %v", err)
	}
}
