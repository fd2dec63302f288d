package harness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Option changes the settings a broker is started with.
type Option func(*settings.Settings)

// Queue makes a queue. Properties that no change touches are those of `serve --queue`. The limits
// of entity files do not apply: a lock may be shorter than five seconds.
func Queue(name string, changes ...func(*event.Properties)) Option {
	p := engine.DefaultProperties(event.Queue)
	for _, change := range changes {
		change(&p)
	}
	return func(s *settings.Settings) {
		s.Entities.Put = append(s.Entities.Put, engine.PutEntity{Kind: event.Queue, Path: name, Properties: p})
	}
}

// Lock sets how long a queue's locks last.
func Lock(d time.Duration) func(*event.Properties) {
	return func(p *event.Properties) { p.LockDuration = d }
}

// Rule adds an access rule beside the emulator's.
func Rule(name, key string, rights ...settings.Right) Option {
	return func(s *settings.Settings) {
		s.Access = append(s.Access, settings.AccessRule{Name: name, Rights: rights, Primary: settings.NewSecret(key)})
	}
}

// Broker is a running broker. Its methods may be called from one goroutine at a time.
type Broker struct {
	t        testing.TB
	settings settings.Settings
	server   *broker.Server // nil while stopped
	crashes  int
}

// Start runs a broker until the test ends. Without a [Queue] it has one named "orders".
func Start(t testing.TB, options ...Option) *Broker {
	t.Helper()
	s, err := settings.Load(settings.Sources{Flags: map[string][]string{
		"data": {filepath.Join(t.TempDir(), "data")}, "listen": {"127.0.0.1:0"},
	}})
	if err != nil {
		t.Fatalf("harness: %v", err)
	}
	for _, option := range options {
		option(&s)
	}
	if len(s.Entities.Put) == 0 {
		Queue("orders")(&s)
	}
	b := &Broker{t: t, settings: s}
	b.Start()
	b.settings.Listening.Addresses = []string{b.server.Addrs()[0].String()} // from now on
	t.Cleanup(b.Stop)
	return b
}

// Start starts a stopped broker again, on the address it had.
func (b *Broker) Start() {
	b.t.Helper()
	var err error
	if b.server, err = broker.Start(b.t.Context(), b.settings); err != nil {
		b.t.Fatalf("harness: start: %v", err)
	}
}

// Stop closes the broker as SIGTERM does. A stopped broker stays stopped.
func (b *Broker) Stop() {
	b.t.Helper()
	if b.server == nil {
		return
	}
	err := b.server.Close()
	b.server = nil
	if err != nil {
		b.t.Errorf("harness: close: %v", err)
	}
}

// Set changes the settings of a broker that is stopped.
func (b *Broker) Set(change Option) { change(&b.settings) }

// Restart stops the broker and starts it again.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Stop()
	b.Start()
}

// Crash ends the broker and starts another on what its files held at that moment: nothing that
// closing writes is there. Nobody may be using the broker: the files are copied one after another.
// To kill one that works use [StartProcess].
func (b *Broker) Crash() {
	b.t.Helper()
	b.crashes++
	copied := fmt.Sprintf("%s-%d", b.settings.Storage.Data, b.crashes)
	if err := copyTree(b.settings.Storage.Data, copied); err != nil {
		b.t.Fatalf("harness: %v", err)
	}
	b.Stop()
	b.settings.Storage.Data = copied
	b.Start()
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		src, err := os.Open(path)
		if err != nil {
			return err
		}
		defer src.Close()
		dst, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := io.Copy(dst, src); err != nil {
			_ = dst.Close()
			return err
		}
		return dst.Close()
	})
}

// Server is the broker that runs at present.
func (b *Broker) Server() *broker.Server { return b.server }

// Put creates a queue or changes one, as the management interface will.
func (b *Broker) Put(name string, changes ...func(*event.Properties)) {
	b.t.Helper()
	var s settings.Settings
	Queue(name, changes...)(&s)
	if _, err := b.server.Engine().PutEntity(b.t.Context(), s.Entities.Put[0]); err != nil {
		b.t.Fatalf("harness: %v", err)
	}
}

// ConnectionString is what an SDK connects with, under the emulator's rule. It stays the same over
// restarts.
func (b *Broker) ConnectionString() string {
	rule := b.settings.Access[0]
	return b.ConnectionStringFor(rule.Name, rule.Primary.Reveal())
}

// ConnectionStringFor is a connection string with a name and a key of the test's choice.
func (b *Broker) ConnectionStringFor(name, key string) string {
	_, port, _ := strings.Cut(b.settings.Listening.Addresses[0], ":")
	return connectionString(port, name, key)
}

func connectionString(port, name, key string) string {
	return fmt.Sprintf("Endpoint=sb://localhost:%s;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true;", port, name, key)
}
