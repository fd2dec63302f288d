package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// asCommand makes the test binary run as the command.
const asCommand = "LEDGERBUS_TEST_IS_COMMAND"

// The tests of this package run one after the other: all commands of a process share the help flag
// of the command-line library, which writes to it whenever one is parsed.

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command returns a run of ledgerbus in a separate process without inherited settings.
func command(t *testing.T, connection string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = []string{
		asCommand + "=1", "LEDGERBUS_CONNECTION_STRING=" + connection, "PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + t.TempDir(),
		// built with -race, a process sleeps for a second before it ends, and there are hundreds
		"GORACE=atexit_sleep_ms=10",
	}
	return cmd
}

type result struct {
	code        int
	out, errOut string
}

func execute(t *testing.T, connection, stdin string, args ...string) result {
	t.Helper()
	cmd := command(t, connection, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v; want no error or an exit code", err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// startBroker starts the broker of the command line on a free port, and returns its connection
// string.
func startBroker(t *testing.T, more ...string) string {
	t.Helper()
	flags := map[string][]string{"data": {t.TempDir()}, "listen": {"127.0.0.1:0"}, "queue": {"orders"}}
	for i := 0; i+1 < len(more); i += 2 {
		flags[more[i]] = []string{more[i+1]}
	}
	s, err := settings.Load(settings.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	connection, stop := startWith(t, s)
	t.Cleanup(stop)
	return connection
}

// startStoppable starts a broker on a directory, and returns a function that stops it.
func startStoppable(t *testing.T, data string) (connection string, stop func()) {
	t.Helper()
	s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {data}, "listen": {"127.0.0.1:0"}, "queue": {"orders"}}})
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, s)
}

func startWith(t *testing.T, s settings.Settings) (connection string, stop func()) {
	t.Helper()
	srv, err := broker.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return srv.ConnectionString(), func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestExitCodesAndMessages(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("{\n\"UserConfig\": {\"Namespaces\": [{\"Name\": \"n\",\n\"Topics\": [{}],\n\"Colour\": 1}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	ownKey := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(ownKey, []byte("access-rules: [{name: a, rights: [Manage], primary-key: k}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody := "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
	for _, c := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"no such command", []string{"sned"}, 2, `ledgerbus: unknown command "sned"; see ledgerbus --help`},
		{"no such command below a command", []string{"queue", "lst"}, 2, `ledgerbus: No help topic for 'lst'. Did you mean "list"?`},
		{"no such flag", []string{"serve", "--colour"}, 2, "ledgerbus: flag provided but not defined: -colour; see ledgerbus serve --help"},
		{"an argument too many", []string{"serve", "data"}, 2, `ledgerbus: serve takes no argument "data"; see ledgerbus serve --help`},
		{"not loopback", []string{"serve", "--listen", "10.1.2.3:5672"}, 2, `ledgerbus: --listen: "10.1.2.3:5672" can be reached from other machines and the emulator's key is public knowledge: listen on 127.0.0.1, give access-rules with a key of your own, or add --insecure-no-auth when the network is trusted`},
		{"all interfaces", []string{"serve", "--listen", ":5672", "--insecure-no-tls", "--insecure-no-auth"}, 2, `ledgerbus: 2 problems
  --listen: ":5672" may be reached from the internet without TLS: add --i-accept-the-risk if that is meant
  --listen: ":5672" may be reached from the internet and the emulator's key is public knowledge: add --i-accept-the-risk if that is meant`},
		{"all interfaces, own key", []string{"serve", "--config", ownKey, "--listen", ":5672", "--insecure-no-tls"}, 2, `ledgerbus: --listen: ":5672" may be reached from the internet without TLS: add --i-accept-the-risk if that is meant`},
		{"bad entity file", []string{"serve", "--entities", broken}, 2, "ledgerbus: 2 problems\n  " + broken + ":3: UserConfig.Namespaces[0].Topics[0].Name: missing\n  " + broken + ":4: UserConfig.Namespaces[0].Colour: unknown key; known are Name, Queues, Topics (unknown keys are ignored only in a file that CONFIG_PATH, CONFIG_JSON or the emulator's own path names)"},
		{"no entity", []string{"peek"}, 2, "ledgerbus: missing ENTITY; usage: ledgerbus peek ENTITY, such as orders or 'orders/$dlq'"},
		{"two entities", []string{"receive", "a", "b"}, 2, `ledgerbus: extra argument "b": give one entity`},
		{"two settlements", []string{"receive", "a", "--complete", "--abandon"}, 2, "ledgerbus: --complete, --abandon, --dead-letter, --defer and --delete cannot be used together"},
		{"output", []string{"peek", "a", "-o", "xml"}, 2, `ledgerbus: --output: "xml" is not one of text, json`},
		{"property", []string{"send", "a", "--body", "x", "--property", "n:int=x"}, 2, `ledgerbus: --property: "n:int=x": "x" is not a valid int`},
		{"bad connection string", []string{"send", "a", "--body", "x", "--connection-string", "x"}, 2, "ledgerbus: connection string: every part must be Key=Value"},
		{"scheduled twice", []string{"send", "a", "--body", "x", "--schedule-in", "1m", "--schedule-at", "2027-01-31T08:00:00Z"}, 2, "ledgerbus: --schedule-at and --schedule-in cannot be used together"},
		{"no time", []string{"send", "a", "--body", "x", "--schedule-at", "noon"}, 2, `ledgerbus: --schedule-at: "noon" is not a time such as 2027-01-31T08:00:00Z`},
		{"the past", []string{"send", "a", "--body", "x", "--schedule-in", "0s"}, 2, "ledgerbus: --schedule-in must be more than 0"},
		{"deferred of any session", []string{"receive", "a", "--deferred", "1", "--session", "next"}, 2, "ledgerbus: --deferred cannot be used with --count or --session next"},
		{"production without a key", []string{"serve", "--mode", "production"}, 2, "ledgerbus: access-rules: production mode needs at least one rule with a new key, in the config file (ledgerbus init makes one) or in LEDGERBUS_ACCESS_RULES"},
		{"any bearer in production", []string{"serve", "--config", ownKey, "--mode", "production", "--accept-any-bearer"}, 2, "ledgerbus: --accept-any-bearer: accept-any-bearer is for development mode only"},
		{"nowhere to get keys from", []string{"serve", "--config", ownKey, "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--jwt-issuer", "http://127.0.0.1:1", "--jwt-audience", "a"}, 2, `ledgerbus: jwt.issuer: access: discovery of http://127.0.0.1:1: Get "http://127.0.0.1:1/.well-known/openid-configuration": dial tcp 127.0.0.1:1: connect: connection refused`},
		{"no certificate", []string{"serve", "--tls-certificate-file", "/nonexistent", "--tls-key-file", "/nonexistent"}, 2, "ledgerbus: --tls-key-file: stat /nonexistent: no such file or directory"},
		{"nobody there", []string{"send", "a", "--body", "x"}, 1, "ledgerbus: connect to 127.0.0.1:1: connect: connection refused; check that the broker is running there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := execute(t, nobody, "", c.args...)
			if diff := cmp.Diff(c.text, strings.TrimSpace(r.errOut)); diff != "" || r.code != c.code || r.out != "" {
				t.Errorf("exit code %d, want %d; output %q; (-want +got):\n%s", r.code, c.code, r.out, diff)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help": {"--help"}, "serve": {"serve", "--help"}, "send": {"send", "--help"}, "receive": {"receive", "--help"}, "peek": {"peek", "--help"},
	} {
		r := execute(t, "", "", args...)
		if r.code != 0 || r.errOut != "" {
			t.Errorf("%s: exit code %d, %s", name, r.code, r.errOut)
		}
		file := filepath.Join("testdata", name+".txt")
		if *rewrite {
			if err := os.WriteFile(file, []byte(r.out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), r.out); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	if r := execute(t, "", "", "version"); r.code != 0 || !strings.HasPrefix(r.out, "ledgerbus ") {
		t.Errorf("version: %+v", r)
	}
}

// messages reads the JSON lines of receive and peek.
func messages(t *testing.T, r result) []map[string]any {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.errOut)
	}
	var list []map[string]any
	for dec := json.NewDecoder(strings.NewReader(r.out)); dec.More(); {
		var m map[string]any
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

func TestSendPeekReceive(t *testing.T) {
	broker := startBroker(t)
	sent := execute(t, broker, "", "send", "orders", "--body", "first", "--property", "region=eu", "--property", "n:int=3", "--message-id", "m1",
		"--subject", "s", "--content-type", "text/plain")
	if sent.code != 0 || !strings.HasPrefix(sent.out, "1 message to orders, acknowledged in ") {
		t.Fatalf(`%+v; want sent.code == 0 && strings.HasPrefix(sent.out, "1 message to orders, acknowledged in ")`, sent)
	}
	if r := execute(t, broker, "second\nthird \x1b[31m\n", "send", "orders", "--batch", "10", "-o", "json"); r.code != 0 || !strings.Contains(r.out, `"acknowledged":2`) {
		t.Fatalf("%+v; want r.code == 0 && strings.Contains(r.out, `\"acknowledged\":2`)", r)
	}

	peeked := messages(t, execute(t, broker, "", "peek", "orders", "-o", "json"))
	if len(peeked) != 3 || peeked[0]["messageId"] != "m1" || peeked[0]["subject"] != "s" || peeked[0]["contentType"] != "text/plain" ||
		!cmp.Equal(peeked[0]["properties"], map[string]any{"region": "eu", "n": 3.0}) || peeked[1]["body"] != "second" || peeked[2]["sequenceNumber"] != 3.0 {
		t.Fatalf("peeked %v", peeked)
	}
	if list := messages(t, execute(t, broker, "", "peek", "--from", "2", "--count", "1", "orders", "-o", "json")); len(list) != 1 || list[0]["body"] != "second" {
		t.Errorf("peeked from 2: %v", list)
	}
	if text := execute(t, broker, "", "peek", "orders", "--from", "3"); !strings.Contains(text.out, `third \u001b[31m`) {
		t.Errorf("control characters: %q", text.out)
	}

	first := messages(t, execute(t, broker, "", "receive", "orders", "--dead-letter", "--reason", "R", "--description", "D", "-o", "json"))
	if len(first) != 1 || first[0]["body"] != "first" || first[0]["lockToken"] == nil {
		t.Fatalf("received %v", first)
	}
	dead := messages(t, execute(t, broker, "", "receive", "orders/$DeadLetterQueue", "--complete", "-o", "json"))
	if len(dead) != 1 || dead[0]["deadLetterReason"] != "R" || dead[0]["deadLetterErrorDescription"] != "D" || dead[0]["sequenceNumber"] != 1.0 {
		t.Fatalf("dead-lettered %v", dead)
	}
	if r := execute(t, broker, "", "receive", "orders", "--abandon"); r.code != 0 || !strings.Contains(r.errOut, "1 message from orders abandoned") {
		t.Fatalf(`%+v; want r.code == 0 && strings.Contains(r.errOut, "1 message from orders abandoned")`, r)
	}
	rest := messages(t, execute(t, broker, "", "receive", "orders", "--count", "0", "--wait", "300ms", "--complete", "-o", "json"))
	if len(rest) != 2 || rest[0]["body"] != "second" || rest[0]["deliveryCount"] != 1.0 || rest[1]["deliveryCount"] != 0.0 {
		t.Fatalf("received %v", rest)
	}
	if r := execute(t, broker, "", "receive", "orders", "--wait", "100ms"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "no message in orders within 100ms") {
		t.Errorf(`%+v; want r.code == 0 && r.out == "" && strings.Contains(r.errOut, "no message in orders within 100ms")`, r)
	}
	if r := execute(t, broker, "", "send", "nowhere", "--body", "x"); r.code != 1 || !strings.Contains(r.errOut, "amqp:not-found, status 404") {
		t.Errorf(`%+v; want r.code == 1 && strings.Contains(r.errOut, "amqp:not-found, status 404")`, r)
	}
}

func TestSessionsDeferredScheduled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "queues.json")
	if err := os.WriteFile(file, []byte(`{"UserConfig":{"Namespaces":[{"Name":"n","Queues":[{"Name":"baskets","Properties":{"RequiresSession":true}}]}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broker := startBroker(t, "entities", file)
	done := func(r result) {
		t.Helper()
		if r.code != 0 {
			t.Fatalf("%+v; want r.code == 0", r)
		}
	}
	for _, id := range []string{"a", "b"} {
		done(execute(t, broker, "one\ntwo\n", "send", "baskets", "--session-id", id, "--ttl", "1h"))
	}
	list := messages(t, execute(t, broker, "", "receive", "baskets", "--session", "b", "--count", "0", "--wait", "300ms", "--complete", "-o", "json"))
	if len(list) != 2 || list[0]["sessionId"] != "b" || list[0]["body"] != "one" {
		t.Errorf("session b: %v", list)
	}
	next := execute(t, broker, "", "receive", "baskets", "--session", "next", "--defer", "-o", "json")
	if list := messages(t, next); len(list) != 1 || list[0]["sessionId"] != "a" || !strings.Contains(next.errOut, "session a") {
		t.Fatalf("next session: %+v", next)
	}
	peeked := messages(t, execute(t, broker, "", "peek", "baskets", "--session", "a", "-o", "json"))
	if len(peeked) != 2 || peeked[0]["state"] != "deferred" || peeked[1]["state"] != "active" {
		t.Fatalf("peeked %v", peeked)
	}
	number := fmt.Sprint(peeked[0]["sequenceNumber"])
	if list := messages(t, execute(t, broker, "", "receive", "baskets", "--session", "a", "--deferred", number, "--complete", "-o", "json")); len(list) != 1 || list[0]["body"] != "one" {
		t.Errorf("deferred: %v", list)
	}
	if r := execute(t, broker, "", "receive", "baskets", "--session", "a", "--deferred", number); r.code != 1 {
		t.Errorf("a completed message: %+v", r)
	}
	if r := execute(t, broker, "", "receive", "baskets", "--session", "c", "--wait", "200ms"); r.code != 0 || !strings.Contains(r.errOut, "no message in baskets") {
		t.Errorf("an empty session: %+v", r)
	}

	done(execute(t, broker, "", "send", "orders", "--body", "later", "--schedule-in", "1h"))
	done(execute(t, broker, "", "send", "orders", "--body", "past", "--schedule-at", "2026-01-31T08:00:00Z"))
	peeked = messages(t, execute(t, broker, "", "peek", "orders", "-o", "json"))
	if len(peeked) != 2 || peeked[0]["state"] != "scheduled" || peeked[1]["state"] != "active" {
		t.Errorf("scheduled: %v", peeked)
	}
	set := messages(t, execute(t, broker, "", "receive", "orders", "--defer", "-o", "json"))
	if len(set) != 1 {
		t.Fatalf("received %v", set)
	}
	dead := execute(t, broker, "", "receive", "orders", "--deferred", fmt.Sprint(set[0]["sequenceNumber"]), "--dead-letter", "--reason", "R", "-o", "json")
	if list := messages(t, dead); len(list) != 1 || list[0]["lockToken"] == nil {
		t.Errorf("deferred: %v", list)
	}
	if list := messages(t, execute(t, broker, "", "receive", "orders/$DeadLetterQueue", "--delete", "-o", "json")); len(list) != 1 || list[0]["deadLetterReason"] != "R" {
		t.Errorf("dead-lettered: %v", list)
	}
}

func TestManyMessages(t *testing.T) {
	broker := startBroker(t)
	for _, batch := range []string{"1", "64"} {
		if r := execute(t, broker, "", "send", "orders", "--body", "x", "--count", "1000", "--batch", batch); r.code != 0 {
			t.Fatalf("%+v; want r.code == 0", r)
		}
	}
	half := messages(t, execute(t, broker, "", "receive", "orders", "--count", "1000", "--delete", "-o", "json"))
	if len(half) != 1000 || half[0]["lockToken"] != nil {
		t.Errorf("received and deleted %d", len(half))
	}
	seen := map[any]bool{}
	for _, m := range slices.Concat(half, messages(t, execute(t, broker, "", "receive", "orders", "--count", "1000", "--complete", "-o", "json"))) {
		seen[m["sequenceNumber"]] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d of 2000 messages", len(seen))
	}
	if left := messages(t, execute(t, broker, "", "peek", "orders", "-o", "json")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestServeUntilASignal(t *testing.T) {
	data := t.TempDir()
	for _, recovered := range []string{"a new data directory", "the last run ended cleanly"} {
		cmd := command(t, "", "serve", "--data", data, "--listen", "127.0.0.1:0", "--queue", "orders", "--queue", "payments", "--log-format", "json")
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "queues") { // the last line: it serves now
				break
			}
		}
		for _, want := range []string{"Ledgerbus ", "development mode", "listening on       127.0.0.1:", "ws://localhost:", "/$servicebus/websocket", "amqps://localhost:", filepath.Join(data, "tls", "ca.pem"), "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;", data, "orders, payments", recovered} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, text.String())
			}
		}
		if r := execute(t, "", "", "serve", "--data", data, "--listen", "127.0.0.1:0"); r.code != 3 {
			t.Errorf("a second broker on the directory: %+v", r)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, errOut.String())
		}
		timer.Stop()
	}
}

func TestFlagsFirst(t *testing.T) {
	commands := []*cli.Command{sendCommand(), {Name: "log", Subcommands: []*cli.Command{{Name: "dump", Flags: []cli.Flag{&cli.BoolFlag{Name: "bodies"}, &cli.StringFlag{Name: "from"}}}}}}
	for _, c := range []struct{ in, want string }{
		{"x send orders --count 5 -o json", "x send --count 5 -o json -- orders"},
		{"x send --count=5 orders", "x send --count=5 -- orders"},
		{"x send orders -- --odd", "x send -- orders --odd"},
		{"x log dump data --bodies --from 3 more", "x log dump --bodies --from 3 -- data more"},
		{"x log dump", "x log dump"},
		{"x log dump -2h data -7d --bodies", "x log dump --bodies -- -2h data -7d"},
		{"x unknown a --b", "x unknown a --b"},
		{"x --help", "x --help"},
		{"x", "x"},
	} {
		if got := strings.Join(flagsFirst(commands, strings.Fields(c.in)), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}

// S33: no output in any form can control a terminal, and programs read the sent messages from it.
func TestNothingSteersATerminal(t *testing.T) {
	const evil = "\x1b[2J\u009b\u202e\u2028\u2029é"
	p := engine.DefaultProperties(event.Queue)
	p.UserMetadata = evil
	subject := evil
	m := client.Message{SequenceNumber: 1, Subject: &subject, Properties: map[string]any{evil: evil}, Body: client.Body{Value: evil}}
	r := print.Object{print.Named("metadata", evil)}
	printer := func(w io.Writer, f output.Format) *output.Printer { return output.New(w, w, f) }
	rows := func(p *output.Printer) error {
		return output.Rows(p, []print.Object{r}, func(r print.Object) print.Object { return r })
	}
	fields, err := r.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	line := func(p *output.Printer) error {
		p.Columns = []string{"metadata"}
		return p.Line("row", evil, fields)
	}
	for name, show := range map[string]func(io.Writer) error{
		"message":         func(w io.Writer) error { return printMessage(printer(w, output.Text), m) },
		"message in JSON": func(w io.Writer) error { return printMessage(printer(w, output.JSON), m) },
		"table":           func(w io.Writer) error { return rows(printer(w, output.Text)) },
		"rows in JSON":    func(w io.Writer) error { return rows(printer(w, output.JSON)) },
		"rows in CSV":     func(w io.Writer) error { return rows(printer(w, output.CSV)) },
		"one":             func(w io.Writer) error { return printer(w, output.Text).One(r) },
		"sentence":        func(w io.Writer) error { return printer(w, output.Text).Said(evil, r) },
		"line":            func(w io.Writer) error { return line(printer(w, output.Text)) },
		"line in JSON":    func(w io.Writer) error { return line(printer(w, output.JSON)) },
		"line in CSV":     func(w io.Writer) error { return line(printer(w, output.CSV)) },
		"entity file": func(w io.Writer) error {
			return settings.WriteEntities(w, []engine.PutEntity{{Kind: event.Queue, Path: "orders", Properties: p}}, settings.EntityJSON, false)
		},
	} {
		var out bytes.Buffer
		if err := show(&out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if program.Printable(out.String()) != out.String() {
			t.Errorf("%s: %q", name, &out)
		}
		var read map[string]any
		if strings.HasSuffix(name, "JSON") && (json.Unmarshal(out.Bytes(), &read) != nil || read["metadata"] != evil && read["subject"] != evil) {
			t.Errorf("%s: %v from %s", name, read, &out)
		}
	}
}
