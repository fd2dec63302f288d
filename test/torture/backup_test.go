package torture

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools"
)

// TestBackups copies a broker while messages are forwarded and moved in transactions, with the
// command line, and now and then kills one side or the other in the middle. A broker on a copy, and
// one on a copy of it, has every message that was sent with ok before the backup began, and each
// once; a copy that broke off does not exist (decision 47).
func TestBackups(t *testing.T) {
	m := &moves{rig: newRig(t, harness.Build(t, t.TempDir()), movesEntities, firstSeed(), *rounds)}
	m.address = m.process.Address()
	ctx, stop := context.WithCancel(t.Context())
	for n := range movesProducers {
		for _, queue := range []string{"tx-a", "chain-1"} {
			m.load.workers.Go(func() { m.load.produce(ctx, queue, n) })
		}
	}
	for n := range movesWorkers {
		m.load.workers.Go(func() { m.work(ctx, n) })
	}
	var copies []*moves
	for range 3 {
		acks := m.acks()
		for until := time.Now().Add(30 * time.Second); m.acks() < acks+200 && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		}
		copies = append(copies, m.backUp())
	}
	killed, broke := 0, 0
	for n := range max(*rounds, 4) {
		who := []string{"client", "broker"}[n%2]
		if m.interrupt(who, time.Duration(m.rng.Int64N(int64(150*time.Millisecond)))) {
			broke++
		}
		killed++
	}
	stop()
	m.load.workers.Wait()
	m.close()
	m.end()
	m.wantSealed()
	m.reportFaults()
	for i, c := range copies {
		c.opens()
		again := c.backUp()
		c.end()
		if i == len(copies)-1 {
			again.opens()
			again.end()
		}
	}
	t.Logf("seed %d: %d backups, and %d with a kill in the middle, of which %d broke off; %d calls acknowledged, %d commits", m.seed, len(copies), killed, broke, m.ledger.acks, m.commits)
	if m.commits == 0 {
		t.Error("this run does not count: nothing was committed")
	}
}

// backup is the command that copies the broker.
func (m *moves) backup(into string) *exec.Cmd {
	return exec.CommandContext(m.Context(), m.binary, "backup", "--into", into, "--connection-string", m.process.ConnectionString())
}

// backUp copies the broker, and returns what is known of the copy: what was sent before has to be
// there, what was tried until now may be.
func (m *moves) backUp() *moves {
	m.Helper()
	known := newLedger()
	note := func(before bool) {
		m.ledger.mu.Lock()
		defer m.ledger.mu.Unlock()
		for id, e := range m.ledger.messages {
			if known.messages[id] == nil {
				copied := *e
				if known.messages[id] = &copied; !before {
					copied.sent = unknown
				}
			}
		}
	}
	note(true)
	dir := filepath.Join(m.TempDir(), "copy")
	out, err := m.backup(dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " is a copy of ") || strings.Count(string(out), "\n") != 1 {
		m.Fatalf("backup: %v\n%s", err, out)
	}
	note(false)
	c := &moves{rig: &rig{T: m.T, seed: m.seed, binary: m.binary, data: dir, ledger: known, rng: m.rng, process: harness.NewProcess(m.binary, dir, "--log-level", "warn")}}
	return c
}

// opens starts a broker on a copy, waits until nothing moves, and closes its books.
func (m *moves) opens() {
	m.Helper()
	m.start()
	m.Cleanup(func() { _ = m.process.Kill() })
	m.address = m.process.Address()
	m.load = &load{t: m.T, address: m.process.ConnectionString(), ledger: m.ledger, seed: m.seed}
	m.close()
	m.reportFaults()
}

// interrupt kills the client or the broker while a backup is made. It reports whether that broke it
// off: then nothing has the name of the copy, and a client that is still alive has removed what it
// received.
func (m *moves) interrupt(who string, after time.Duration) bool {
	m.Helper()
	dir := filepath.Join(m.TempDir(), "copy")
	cmd := m.backup(dir)
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	time.Sleep(after)
	if who == "client" {
		_ = cmd.Process.Kill()
	} else if err := m.kill(); err != nil {
		m.Fatal(err)
	}
	err := cmd.Wait()
	if who == "broker" {
		m.start()
	}
	_, there := os.Stat(filepath.Join(dir, "namespace.json"))
	_, partial := os.Stat(dir + tools.PartialSuffix)
	switch {
	case err == nil || there == nil: // it was faster
		out, err := exec.CommandContext(m.Context(), m.binary, "log", "verify", dir).CombinedOutput()
		if err != nil {
			m.Errorf("what has the name of a copy is none: %v\n%s", err, out)
		}
		return false
	case !errors.Is(there, os.ErrNotExist):
		m.Error(there)
	case who == "broker" && (cmd.ProcessState.ExitCode() != 1 || !errors.Is(partial, os.ErrNotExist)):
		m.Errorf("the broker died: exit code %d, and what was received: %v", cmd.ProcessState.ExitCode(), partial)
	case who == "client" && partial == nil:
		if out, err := m.backup(dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "is left over from an earlier attempt") {
			m.Errorf("a backup beside the rest of one: %v\n%s", err, out)
		}
	}
	return true
}
