package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/listen"
)

// startTimeout bounds how long a process may take until it serves.
const startTimeout = 30 * time.Second

// Build makes the ledgerbus binary of the sources at hand and returns its path. dir is where it
// goes.
func Build(t testing.TB, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "ledgerbus")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/ledgerbus/ledgerbus/cmd/ledgerbus")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("harness: go build: %v\n%s", err, out)
	}
	return binary
}

// Process is the real broker in a process of its own.
type Process struct {
	binary  string
	args    []string
	data    string       // directory
	log     string       // file that gets the standard error of every run
	address atomic.Value // a string, host:port; known after the first start

	mu      sync.Mutex
	running *run // guarded by mu; nil while stopped
}

// run is one life of the process.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once err is set
	err    error
}

// ErrKilledEarly says that the process ended before it served.
var ErrKilledEarly = errors.New("harness: the process ended before it served")

// Stderr is the file with the diagnostics of every run.
func (p *Process) Stderr() string { return p.log }

// NewProcess prepares a broker on a directory, with further flags of `ledgerbus serve`. Diagnostics
// go to the file beside the data directory with ".stderr" behind its name.
func NewProcess(binary, data string, flags ...string) *Process {
	return &Process{binary: binary, args: append([]string{"serve", "--data", data}, flags...), data: data, log: data + ".stderr"}
}

// StartProcess builds the binary, runs it on a new directory and stops it when the test ends.
func StartProcess(t testing.TB, flags ...string) *Process {
	t.Helper()
	dir := t.TempDir()
	p := NewProcess(Build(t, dir), filepath.Join(dir, "data"), flags...)
	if _, err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Start runs the broker, on the address it had before, waits until it serves and says how long that
// took. When it ends before, because of a fault or of [Process.Kill], the error is an
// [ErrKilledEarly].
func (p *Process) Start() (time.Duration, error) {
	began := time.Now()
	r, stdout, err := p.launch()
	if err != nil {
		return 0, err
	}
	serving := make(chan string, 1)
	go func() {
		defer close(serving)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if _, address, found := strings.Cut(lines.Text(), "listening on"); found {
				serving <- strings.TrimSpace(address)
			}
		}
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case address, ok := <-serving:
		if !ok {
			<-r.exited
			return 0, fmt.Errorf("%w: %w\n%s", ErrKilledEarly, r.err, p.tail())
		}
		p.address.Store(address)
		return time.Since(began), nil
	case <-timeout.C:
		_ = p.Kill()
		return 0, fmt.Errorf("harness: not serving after %s\n%s", startTimeout, p.tail())
	}
}

func (p *Process) launch() (*run, io.Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	listen := p.Address()
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	stderr, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer stderr.Close()
	cmd := exec.CommandContext(context.Background(), p.binary, append(p.args, "--listen", listen)...)
	cmd.Stderr = stderr
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer write.Close()
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		_ = read.Close()
		return nil, nil, err
	}
	r := &run{cmd: cmd, exited: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		close(r.exited)
	}()
	p.running = r
	return r, read, nil
}

// take returns the run there is, and notes that there is none any more.
func (p *Process) take() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running
	p.running = nil
	return r
}

// PID is the id of the process; 0: none runs.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return 0
	}
	return p.running.cmd.Process.Pid
}

// Address is the host and port it listens on. It is known after the first start.
func (p *Process) Address() string {
	address, _ := p.address.Load().(string)
	return address
}

// Kill ends the process with SIGKILL and waits until it is gone. The error says that it had ended
// by itself.
func (p *Process) Kill() error {
	r := p.take()
	if r == nil {
		return nil
	}
	if err := r.cmd.Process.Kill(); errors.Is(err, os.ErrProcessDone) {
		<-r.exited
		return fmt.Errorf("harness: the broker ended by itself: %w\n%s", r.err, p.tail())
	}
	<-r.exited
	return nil
}

// Stop ends the process as a service manager does, with SIGTERM. It must exit with 0 then.
func (p *Process) Stop() error {
	r := p.take()
	if r == nil {
		return nil
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.exited
	if r.err != nil {
		return fmt.Errorf("harness: stopped with %w\n%s", r.err, p.tail())
	}
	return nil
}

// tail is the end of what the process said on standard error.
func (p *Process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	return string(text[max(0, len(text)-most):])
}

// Authority is the file with the certificate that clients have to trust. It is there after the
// first start.
func (p *Process) Authority() string { return filepath.Join(p.data, "tls", listen.AuthorityFile) }

// ConnectionString is what an SDK connects with.
func (p *Process) ConnectionString() string {
	_, port, _ := strings.Cut(p.Address(), ":")
	return connectionString(port, "RootManageSharedAccessKey", "SAS_KEY_VALUE")
}
