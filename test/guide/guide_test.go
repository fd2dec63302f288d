package guide

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

// What the guide says about forwarding is what one sees who types it.
func TestForwarding(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/forwarding.md", newDirectory(t))
}

// What the guide says about partitions that do not serve is what one sees who fences one.
func TestPartitions(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/partitions.md", newDirectory(t))
}

// What the guide says about backups is what one sees who makes one and starts a broker on it.
func TestBackup(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/backup.md", newDirectory(t))
}

// What the page about the past says is what one sees who asks.
func TestHistory(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/history.md", newDirectory(t))
}

// The worked example of a transaction: its process and the broker are killed in the middle, and an order has one invoice all the same.
func TestTransactions(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	dir := newDirectory(t)
	program, err := os.ReadFile("../../docs/examples/transactions/Billing.java")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Billing.java"), program, 0o644); err != nil {
		t.Fatal(err)
	}
	fetch := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, "lib"))
	fetch.Dir = "../sdk/java"
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	follow(t, "../../docs/guide/transactions.md", dir)
}

// newDirectory is where somebody who follows the guide has nothing but the program, in bin.
func newDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Build(t, filepath.Join(dir, "bin"))
	return dir
}

// follow types every command of a page in a directory and compares what it prints. The broker listens on a port of its own, which the
// environment says.
func follow(t *testing.T, page, dir string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	steps := read(string(text))
	if len(steps) == 0 {
		t.Fatal("no commands")
	}
	address := freeAddress(t)
	env := append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "LEDGERBUS_LISTEN="+address,
		"LEDGERBUS_CONNECTION_STRING=Endpoint=sb://"+address+";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;")
	t.Cleanup(func() { // whatever broker the page has started last
		_ = exec.Command("sh", "-c", "kill -9 $(cat '"+dir+"/broker.pid')").Run()
	})
	for _, s := range steps {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-c", s.command)
		cmd.Dir, cmd.Env = dir, env
		out, _ := cmd.CombinedOutput() // what goes wrong is in what it prints
		cancel()
		if got := strings.TrimRight(string(out), "\n"); !s.prints.MatchString(got) {
			t.Fatalf("%s:%d: $ %s\nprints\n%s\n\nand not\n%s", page, s.line, s.command, got, s.want)
		}
	}
}

// step is one command of a page.
type step struct {
	line    int
	command string
	want    string // as it stands there
	prints  *regexp.Regexp
}

// read finds the commands in the blocks of a page that are a console: lines behind a dollar, each with what it prints. … stands for
// anything within a line.
func read(page string) (steps []step) {
	inside := false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
		default:
			s := &steps[len(steps)-1]
			s.want = strings.TrimPrefix(s.want+"\n"+line, "\n")
		}
	}
	for i := range steps {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(steps[i].want), "…", ".*")
		steps[i].prints = regexp.MustCompile("^" + pattern + "$")
	}
	return steps
}

func TestRead(t *testing.T) {
	t.Parallel()
	steps := read("text\n```sh\n$ not this\n```\n```console\n$ one\n$ two\n#1  …ms (x)\n  y\n```\n")
	var got []string
	for _, s := range steps {
		got = append(got, fmt.Sprint(s.line, s.command, s.prints))
	}
	if all := strings.Join(got, " "); all != "6one^$ 7two^#1  .*ms \\(x\\)\n  y$" {
		t.Errorf("%q", all)
	}
}

// freeAddress is an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
