package broker

import (
	"net"
	"testing"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
)

// What `make run` prints for an SDK is the emulator's connection string, to the letter, as long as
// the first listener has its port.
func TestConnectionString(t *testing.T) {
	t.Parallel()
	usual, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {t.TempDir()}, "entities": {"../../docs/examples/config.json"}}})
	if err != nil {
		t.Fatal(err)
	}
	const emulator = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
	for _, c := range []struct{ listen, want string }{
		{usual.Listening.Addresses[0], "Endpoint=sb://localhost;" + emulator + "UseDevelopmentEmulator=true;"},
		{"127.0.0.1:5673", "Endpoint=sb://localhost:5673;" + emulator + "UseDevelopmentEmulator=true;"},
		{"127.0.0.9:5671", "Endpoint=sb://127.0.0.9:5671;" + emulator + "UseDevelopmentEmulator=true;"},
		{"[::1]:5672", "Endpoint=sb://[::1];" + emulator + "UseDevelopmentEmulator=true;"},
		{"[::]:5672/" + string(settings.ListenPlain), "Endpoint=sb://localhost;" + emulator + "UseDevelopmentEmulator=true;"},
		{"0.0.0.0:5672/" + string(settings.ListenPlain), "Endpoint=sb://localhost;" + emulator + "UseDevelopmentEmulator=true;"},
		{"10.1.2.3:5672", "Endpoint=sb://10.1.2.3:5672;" + emulator},
		{"[fd00::1]:5673/" + string(settings.ListenPlain), "Endpoint=sb://[fd00::1]:5673;" + emulator + "UseDevelopmentEmulator=true;"},
		{"127.0.0.1:5671/tls", "Endpoint=sb://localhost;" + emulator},
	} {
		address, mode, err := usual.Listener(c.listen)
		if err != nil {
			t.Fatal(err)
		}
		addr, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		srv := &Server{settings: usual, endpoints: []Endpoint{{Addr: addr, Mode: mode}}}
		if got := srv.ConnectionString(); got != c.want {
			t.Errorf("%s: %s, not %s", c.listen, got, c.want)
		}
	}
	if usual.Listening.Addresses[0] != "127.0.0.1:5672" || len(usual.Listening.Addresses) != 2 || usual.Listening.Addresses[1] != "127.0.0.1:5300" {
		t.Errorf("listens on %v", usual.Listening.Addresses)
	}
}
