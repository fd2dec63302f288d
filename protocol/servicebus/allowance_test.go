package servicebus

import "testing"

// A peer is allowed little before its first valid token, and by no limit more than after it.
func TestAllowance(t *testing.T) {
	t.Parallel()
	limits := Limits{BufferedIn: 1 << 10, WindowLogin: 9000}.withDefaults()
	before, after := &allowance{limits: &limits}, &allowance{limits: &limits, loggedIn: true}
	in, out := before.buffers()
	if in != 1<<10 || out != 128<<10 {
		t.Errorf("%d bytes may wait for the engine and %d for the peer, not 1 KiB and 128 KiB", in, out)
	}
	for _, test := range []struct {
		what          string
		of            func(*allowance) int
		before, after int
	}{
		{"bytes held", (*allowance).held, 128 << 10, 96 << 20},
		{"window", func(a *allowance) int { return int(a.window()) }, 5000, 5000},
		{"sessions", (*allowance).sessions, 16, 5000},
		{"links", (*allowance).links, 32, 20_000},
		{"detached links", (*allowance).detached, 32, 40_000},
	} {
		if got := test.of(before); got != test.before {
			t.Errorf("%s before the login: %d, not %d", test.what, got, test.before)
		}
		if got := test.of(after); got != test.after {
			t.Errorf("%s after the login: %d, not %d", test.what, got, test.after)
		}
	}
}
