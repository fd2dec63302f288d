package lab

import (
	"context"
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
}

// Lab is what one run of one suite talks to: a broker of its own with a proxy before it, and the control API.
type Lab struct {
	List    List   // whose queues and topics the broker has
	file    string // entity file of the broker
	process Process
	proxy   *Proxy
	server  *http.Server
	control string // address of the API

	mu      sync.Mutex
	changes Changes // guarded by mu, which also lets one kill at a time happen
}

// Open starts the real broker with the queues and topics of a list, on data in dir.
func Open(binary, dir string, list List) (*Lab, error) {
	file := filepath.Join(dir, "entities.json")
	return New(list, file, harness.NewProcess(binary, filepath.Join(dir, "data"), "--entities", file, "--log-level", "warn"))
}

// New is [Open] with a process of the caller's, which reads the entity file.
func New(list List, file string, p Process) (_ *Lab, err error) {
	l := &Lab{List: list, file: file, process: p, changes: Changes{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := l.writeEntities(nil); err != nil {
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
	l.server = &http.Server{Handler: control{kill: l.kill, cut: l.proxy.Cut, now: time.Now}, ReadHeaderTimeout: 10 * time.Second}
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

// AdminConnectionString leads administration clients to the proxy. The emulator's flag is not in it: most of them ignore it
// and speak TLS, those that heed it would not (management-api.md 1.1).
func (l *Lab) AdminConnectionString() string {
	return strings.Replace(l.ConnectionString(), "UseDevelopmentEmulator=true;", "", 1)
}

// Authority is the file with the certificate that clients have to trust.
func (l *Lab) Authority() string { return l.process.Authority() }

// Control is the address of the control API.
func (l *Lab) Control() string { return l.control }

// kill ends the broker where it stands and starts it on what it left. A change of a queue that is not there is refused
// before that.
func (l *Lab) kill(changes Changes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writeEntities(changes); err != nil {
		return err
	}
	if err := l.process.Kill(); err != nil {
		return err
	}
	_, err := l.process.Start()
	return err
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
	if err := os.WriteFile(l.file, text, 0o600); err != nil {
		return err
	}
	l.changes = all
	return nil
}

// Close ends everything. A broker that does not end well, or had ended before, is an error.
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
	return errors.Join(append(all, l.process.Stop())...)
}
