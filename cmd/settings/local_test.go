package settings

import "testing"

// A probe on the broker's own machine finds it by the broker's settings.
func TestLocal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		env     []string
		flags   map[string][]string
		address string
		tls     bool
		problem string
	}{
		{name: "defaults", address: "127.0.0.1:5672"},
		{name: "all interfaces", env: []string{"LEDGERBUS_LISTEN", "0.0.0.0:5672,0.0.0.0:5300", "LEDGERBUS_INSECURE_NO_TLS", "true"}, address: "127.0.0.1:5672"},
		{name: "all interfaces, IPv6", env: []string{"LEDGERBUS_LISTEN", "[::]:5672", "LEDGERBUS_TLS", "off"}, address: "[::1]:5672"},
		{name: "no host", env: []string{"LEDGERBUS_LISTEN", ":5672", "LEDGERBUS_TLS", "off"}, address: "127.0.0.1:5672"},
		{name: "one without TLS is taken before one with it", env: []string{"LEDGERBUS_LISTEN", "10.0.0.1:5671/tls,127.0.0.1:5300/plain"}, address: "127.0.0.1:5300"},
		{name: "TLS alone", env: []string{"LEDGERBUS_LISTEN", "0.0.0.0:5671"}, address: "127.0.0.1:5671", tls: true},
		{name: "a flag wins", env: []string{"LEDGERBUS_LISTEN", "127.0.0.1:1"}, flags: map[string][]string{"listen": {"127.0.0.1:2"}}, address: "127.0.0.1:2"},
		{name: "the emulator's HTTP port moved", env: []string{"LEDGERBUS_LISTEN", "127.0.0.1:5300", "EMULATOR_HTTP_PORT", "5301"}, address: "127.0.0.1:5301"},
		{name: "an entity file that is not there is none of its business", env: []string{"LEDGERBUS_ENTITIES", "nowhere"}, address: "127.0.0.1:5672"},
		{name: "no port", env: []string{"LEDGERBUS_LISTEN", "127.0.0.1"}, problem: `listen: "127.0.0.1": must be HOST:PORT`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, tls, err := Local(Sources{Env: environment(c.env...), Flags: c.flags})
			if c.problem != "" || err != nil {
				if err == nil || err.Error() != c.problem {
					t.Fatalf("got  %v\nwant %s", err, c.problem)
				}
				return
			}
			if address != c.address || tls != c.tls {
				t.Errorf("%s, TLS %v; want %s, TLS %v", address, tls, c.address, c.tls)
			}
		})
	}
}
