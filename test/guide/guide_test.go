package guide

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

// A reader who types the guide's commands for forwarding sees what it shows.
func TestForwarding(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/forwarding.md", newDirectory(t))
}

// A reader who looks for what a delivery waits for as the guide does sees what it shows.
func TestWaiting(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/waiting.md", newDirectory(t))
}

// A reader who fences a partition as the guide does sees what it shows of partitions that do not
// serve.
func TestPartitions(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/partitions.md", newDirectory(t))
}

// A reader who makes a partitioned entity as the guide does sees what it shows.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/partitioned.md", newDirectory(t))
}

// A reader who erases the body of a message as the guide does sees what it shows.
func TestErasing(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/erasing.md", newDirectory(t))
}

// A reader who makes tables as the guide does sees what it shows. The question that it asks DuckDB
// is asked by test/format.
func TestMessages(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/messages.md", newDirectory(t))
}

func TestExport(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/export.md", newDirectory(t))
}

// A reader who makes a backup and starts a broker on it, as the guide does, sees what it shows
// (reliability.md P26).
func TestBackup(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/backup.md", newDirectory(t))
}

// A reader who asks about the past as that page does sees what it shows.
func TestHistory(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/history.md", newDirectory(t))
}

// A reader of the README who starts a broker as it says sees what it shows.
func TestReadme(t *testing.T) {
	t.Parallel()
	dir := newDirectory(t)
	config, err := filepath.Abs("../../docs/examples/config.json")
	if err != nil {
		t.Fatal(err)
	}
	// as make run does
	follow(t, "../../README.md", dir, "ledgerbus serve --data ./data --entities '"+config+"' >broker.log 2>&1 & echo $! >broker.pid",
		"until ledgerbus health >health.txt 2>&1; do sleep 0.1; done")
}

// A reader who examines a broker and its directory as the guide does sees what it shows.
func TestOperating(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/operating.md", newDirectory(t))
}

// A reader who types the guide's commands for administration sees what it shows.
func TestAdministration(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/administration.md", newDirectory(t))
}

// A reader who sets a policy of history as the guide does sees what it shows.
func TestHistoryPolicies(t *testing.T) {
	t.Parallel()
	follow(t, "../../docs/guide/history.md", newDirectory(t))
}

// The first steps, with each SDK whose runtime is there; with CI=true all must be.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	dir := newDirectory(t)
	for _, name := range []string{"hello.go", "hello.js", "hello.py", "Hello.java"} {
		copyFile(t, filepath.Join(dir, name), "../../docs/examples/first-steps/"+name)
	}
	copyFile(t, filepath.Join(dir, "go.mod"), "../../go.mod") // the versions that all tests have
	copyFile(t, filepath.Join(dir, "go.sum"), "../../go.sum")
	var without []string
	for _, sdk := range []struct {
		command string
		needs   []string
		prepare func()
	}{
		{"node ", []string{"node", "npm"}, func() {
			copyFile(t, filepath.Join(dir, "package.json"), "../sdk/js/package.json")
			copyFile(t, filepath.Join(dir, "package-lock.json"), "../sdk/js/package-lock.json")
			run(t, dir, "npm", "ci", "--no-audit", "--no-fund")
			// it says that programs are modules
			if err := os.Remove(filepath.Join(dir, "package.json")); err != nil {
				t.Fatal(err)
			}
		}},
		{"python3 ", []string{"python3"}, func() {
			copyFile(t, filepath.Join(dir, "requirements.txt"), "../sdk/python/requirements.txt")
			run(t, dir, "python3", "-m", "venv", "venv")
			run(t, dir, "venv/bin/python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt")
			script := "#!/bin/sh\nexec '" + filepath.Join(dir, "venv/bin/python3") + "' \"$@\"\n"
			if err := os.WriteFile(filepath.Join(dir, "bin", "python3"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{"java ", []string{"java", "javac", "mvn"}, func() { javaLibraries(t, dir) }},
	} {
		if missing := lacking(sdk.needs...); missing == nil {
			sdk.prepare()
		} else if os.Getenv("CI") == "true" {
			t.Fatalf(`%+v; want os.Getenv("CI") != "true"`, missing)
		} else {
			t.Logf("without %s: %v", sdk.command, missing)
			without = append(without, sdk.command)
		}
	}
	text, err := os.ReadFile("../../docs/guide/first-steps.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := slices.DeleteFunc(read(string(text)), func(s step) bool {
		return slices.ContainsFunc(without, func(command string) bool { return strings.HasPrefix(s.command, command) })
	})
	walk(t, "../../docs/guide/first-steps.md", dir, steps)
}

// A reader who types the requests of the HTTP API gets an answer to each.
func TestLedgerAPI(t *testing.T) {
	t.Parallel()
	if err := lacking("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	const page = "../../docs/guide/ledger-api.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	steps := read(`
` + "```console" + `
$ ledgerbus serve --data data --queue orders >broker.log 2>&1 & echo $! >broker.pid
$ until ledgerbus health >/dev/null 2>&1; do sleep 0.1; done
$ ledgerbus queue create carts --requires-session >/dev/null
$ ledgerbus send orders --body x --count 17 >/dev/null
$ ledgerbus receive orders --count 17 --complete >/dev/null 2>&1
$ ledgerbus send carts --body x --session-id s >/dev/null
`)
	requests := 0
	for _, s := range read(strings.ReplaceAll(string(text), "\\\n", "")) {
		// an erasure may wait ten minutes for its part of the log to be sealed: TestErasing
		if strings.HasPrefix(s.command, "curl ") && !strings.Contains(s.command, "messages/erase") {
			requests++
			s.command = strings.ReplaceAll(s.command, "localhost:5300", "$LEDGERBUS_LISTEN") + ` | sed 's/^{"error":/refused: &/'`
			s.want, s.prints = "an answer", regexp.MustCompile(`^\{`)
			steps = append(steps, s)
		}
	}
	if requests < 10 {
		t.Errorf("%d requests; want 10 or more", requests)
	}
	walk(t, page, newDirectory(t), steps)
}

// Every page with commands that can be typed is followed by a test, and what only a network, a
// container engine or somebody else's file can show is in blocks of a kind that says so, on the
// pages that are known to have them.
func TestEveryPageIsFollowed(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("guide_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shell := map[string]string{
		"README.md":         "make run, which does not end: TestReadme starts the broker as its recipe does",
		"containers.md":     "they need a container engine",
		"dotnet.md":         "it needs .NET",
		"export.md":         "one command needs DuckDB; TestDuckDB of test/format asks such tables",
		"tls-and-access.md": "they need an application, and keys of the reader's",
		"ledger-api.md":     "an answer shows times that were: TestLedgerAPI types the requests, and protocol/ledger tests the answers",
	}
	for _, page := range append(pages, "../../README.md", "../../docs/history.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(page)
		for _, m := range untyped.FindAllString(string(text), -1) {
			t.Errorf("%s has a command in a block that is neither console nor sh, so that nothing types it: %q", page, m)
		}
		if strings.Contains(string(text), "\n```sh\n") && shell[name] == "" {
			t.Errorf("%s has commands in a block of kind sh, and no reason is known why no test types them", page)
		}
		if strings.Contains(string(text), "\n```console\n") && shell[name] == "" && !strings.Contains(string(source), strings.TrimPrefix(page, "../../")+`"`) {
			t.Errorf("%s has commands, and no test follows it", page)
		}
	}
}

// untyped is a command at the beginning of a block of another kind.
var untyped = regexp.MustCompile("\n\n```(?:text|yaml|)\n(?:\\$ |ledgerbus |make |curl |docker ).*")

// The worked example of a transaction: its process and the broker are killed in the middle, and an
// order has one invoice all the same.
func TestTransactions(t *testing.T) {
	t.Parallel()
	if err := lacking("java", "javac", "mvn"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf(`%+v; want os.Getenv("CI") != "true"`, err)
		}
		t.Skip(err)
	}
	dir := newDirectory(t)
	copyFile(t, filepath.Join(dir, "Billing.java"), "../../docs/examples/transactions/Billing.java")
	javaLibraries(t, dir)
	follow(t, "../../docs/guide/transactions.md", dir)
}

// lacking says which of some programs is not there; nil: they all are.
func lacking(programs ...string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	return nil
}

// javaLibraries puts the libraries of the Java SDK into a directory, in lib.
func javaLibraries(t *testing.T, dir string) {
	t.Helper()
	run(t, "../sdk/java", "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, "lib"))
}

// run runs a program in a directory.
func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o644); err != nil {
		t.Fatal(err)
	}
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

// follow types every command of a page in a directory and compares what it prints, after some that
// print nothing.
func follow(t *testing.T, page, dir string, before ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	for _, command := range before {
		steps = append(steps, step{command: command, prints: regexp.MustCompile("^$")})
	}
	walk(t, page, dir, append(steps, read(string(text))...))
}

// walk types the commands of a page. The broker listens on a port of its own, which the environment
// says.
func walk(t *testing.T, page, dir string, steps []step) {
	t.Helper()
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

// read finds the commands in the blocks of a page that are a console: lines behind a dollar, each
// with what it prints. … stands for anything within a line.
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
		t.Errorf(`%q, want "6one^$ 7two^#1  .*ms \\(x\\)\n  y$"`, all)
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
