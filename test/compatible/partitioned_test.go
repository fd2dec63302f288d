package compatible

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

// S4-11, docs/decisions/0051: entities that were made with EnablePartitioning before there were
// partitions, with the bytes in the log that they had then, keep one partition over all starts and
// changes. A line of each start names them, `queue show` says so, and entities that are made now
// have sixteen.
func TestPartitionedByAnOlderVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	before(t, data)
	broker := harness.Build(t, dir)
	p := harness.NewProcess(broker, data)
	t.Cleanup(func() { _ = p.Kill() })
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), broker, args...)
		cmd.Env = append(os.Environ(), "LEDGERBUS_CONNECTION_STRING="+p.ConnectionString())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	partitions := regexp.MustCompile(`(?m)^partitions +(\d+)$`)
	shows := func(queue, want string) {
		t.Helper()
		out := run("queue", "show", queue)
		if m := partitions.FindStringSubmatch(out); m == nil || m[1] != want {
			t.Errorf("%s shows %q, not %s partitions:\n%s", queue, m, want, out)
		}
	}
	for i := range 2 {
		if _, err := p.Start(); err != nil {
			t.Fatal(err)
		}
		shows("wide", "1")
		run("queue", "update", "wide", "--max-delivery-count", "3")
		shows("wide", "1")
		for range 4 {
			run("send", "wide", "--body", "x")
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		said, err := os.ReadFile(p.Stderr())
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(said), "created by an older version keep one partition"); n != i+1 || strings.Count(string(said), "first=[wide]") != n {
			t.Errorf("a start says:\n%s", said)
		}
	}
	if _, err := p.Start(); err != nil {
		t.Fatal(err)
	}
	run("queue", "create", "new", "--enable-partitioning")
	shows("new", "16")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
}

// before makes a directory with a queue that was asked to be partitioned, and one that was not, as
// versions did that gave every entity one partition.
func before(t *testing.T, data string) {
	t.Helper()
	store, err := log.Open(t.Context(), data, log.Options{Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	n, err := host.Open(t.Context(), store, host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"wide", "plain"} {
		p := engine.DefaultProperties(event.Queue)
		p.EnablePartitioning = path == "wide"
		e, err := n.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: path, Properties: p})
		if err != nil || len(e.Hosts) != 1 {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
