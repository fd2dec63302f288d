package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

// Process is a broker that can be killed: [harness.Process], or a test's.
type Process interface {
	Start() (time.Duration, error)
	Kill() error
	Stop() error
	ConnectionString() string
	Authority() string // file with the certificate that clients have to trust
	Stderr() string    // file with the diagnostics of every run, at the level info
}

// Settings are those of the broker, as its configuration file has them.
type Settings map[string]any

// Lab is what one run of one suite talks to: a broker of its own with a proxy before it, and the
// control API.
type Lab struct {
	List    List   // whose queues and topics the broker has
	dir     string // of the broker's entity file and configuration file
	process Process
	proxy   *Proxy
	server  *http.Server
	control string // address of the API

	mu      sync.Mutex
	changes Changes // guarded by mu, which also lets one kill at a time happen
}

// Open starts the real broker with the queues and topics of a list, on data in dir.
func Open(binary, dir string, list List) (*Lab, error) {
	return New(list, dir, harness.NewProcess(binary, filepath.Join(dir, "data"),
		"--entities", filepath.Join(dir, entitiesFile), "--config", filepath.Join(dir, settingsFile), "--log-level", "info"))
}

// Files that the broker reads when it starts.
const (
	entitiesFile = "entities.json"
	settingsFile = "settings.yaml"
)

// New is [Open] with a process of the caller's, which reads the two files in dir.
func New(list List, dir string, p Process) (_ *Lab, err error) {
	l := &Lab{List: list, dir: dir, process: p, changes: Changes{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := errors.Join(l.writeEntities(nil), l.writeSettings(nil)); err != nil {
		return nil, err
	}
	if _, err := p.Start(); err != nil {
		return nil, err
	}
	host, err := endpoint(p.ConnectionString())
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	if l.proxy, err = StartProxy(net.JoinHostPort("127.0.0.1", port)); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.control = "http://" + listener.Addr().String()
	l.server = &http.Server{Handler: control{kill: l.kill, restart: l.restart, cut: l.proxy.Cut, relay: l.relay, now: time.Now}, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = l.server.Serve(listener) }() // until Close
	return l, nil
}

// endpoint is the host and port that a connection string names.
func endpoint(connectionString string) (string, error) {
	for part := range strings.SplitSeq(connectionString, ";") {
		if value, found := strings.CutPrefix(part, "Endpoint="); found {
			u, err := url.Parse(value)
			if err != nil {
				return "", fmt.Errorf("connection string: %w", err)
			}
			return u.Host, nil
		}
	}
	return "", fmt.Errorf("connection string: no endpoint in %q", connectionString)
}

// ConnectionString leads clients to the proxy.
func (l *Lab) ConnectionString() string {
	direct := l.process.ConnectionString()
	host, _ := endpoint(direct) // it has one: newLab looked
	name, _, _ := net.SplitHostPort(host)
	_, port, _ := net.SplitHostPort(l.proxy.Addr())
	return strings.Replace(direct, host, net.JoinHostPort(name, port), 1)
}

// TLSConnectionString leads clients to the proxy over TLS, since the emulator's flag is not in it.
// Administration clients need this one: most of them ignore the flag and speak TLS, those that heed
// it would not (management-api.md 1.1).
func (l *Lab) TLSConnectionString() string {
	return strings.Replace(l.ConnectionString(), "UseDevelopmentEmulator=true;", "", 1)
}

// Authority is the file with the certificate that clients have to trust.
func (l *Lab) Authority() string { return l.process.Authority() }

// Control is the address of the control API.
func (l *Lab) Control() string { return l.control }

// kill ends the broker where it stands and starts it on what it left. A change of a queue that is
// not there is refused before that.
func (l *Lab) kill(changes Changes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.writeEntities(changes), l.writeSettings(nil)); err != nil {
		return err
	}
	if err := l.process.Kill(); err != nil {
		return err
	}
	_, err := l.process.Start()
	return err
}

// restart stops the broker as a service manager does and starts it with settings, which hold until
// its next start.
func (l *Lab) restart(settings Settings) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writeSettings(settings); err != nil {
		return err
	}
	if err := l.process.Stop(); err != nil {
		return err
	}
	_, err := l.process.Start()
	return err
}

// writeSettings writes the configuration file. The caller holds mu or is alone.
func (l *Lab) writeSettings(settings Settings) error {
	if settings == nil {
		settings = Settings{}
	}
	if l.List.Partitioned { // more partitioned entities than a namespace may have otherwise
		limits := map[string]any{"partitioned": 10_000}
		if given, ok := settings["limits"].(map[string]any); ok {
			maps.Copy(limits, given)
		}
		settings = maps.Clone(settings)
		settings["limits"] = limits
	}
	text, err := json.MarshalIndent(settings, "", "  ") // which is YAML too
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.dir, settingsFile), text, 0o600)
}

// writeEntities adds changes to those made before. The caller holds mu or is alone.
func (l *Lab) writeEntities(changes Changes) error {
	all := maps.Clone(l.changes)
	for queue, properties := range changes {
		merged := Properties{}
		maps.Copy(merged, all[queue])
		maps.Copy(merged, properties)
		all[queue] = merged
	}
	text, err := l.List.entities(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, entitiesFile), text, 0o600); err != nil {
		return err
	}
	l.changes = all
	return nil
}

// Close ends everything. It is an error if the broker does not end well, if it had ended before, or
// if it found fault with a frame of a client: the clients are unmodified SDKs, and what they send
// is right by definition.
func (l *Lab) Close() error {
	var all []error
	if l.server != nil {
		all = append(all, l.server.Shutdown(context.Background()))
	}
	if l.proxy != nil {
		all = append(all, l.proxy.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(append(all, l.process.Stop(), protocolFaults(l.process.Stderr()))...)
}

// mostFaults is how many protocol faults an error shows.
const mostFaults = 5

// protocolFaults is an error with the lines of a broker's diagnostics that say that a client broke
// the protocol. A file that does not exist has none: the broker never started.
func protocolFaults(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	var faults []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "protocol fault") {
			faults = append(faults, strings.TrimSpace(line))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%d protocol faults in %s:\n%s", len(faults), file, strings.Join(faults[:min(len(faults), mostFaults)], "\n"))
}
