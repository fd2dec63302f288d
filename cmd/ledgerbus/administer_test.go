package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const nobodyThere = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"

// executeWith is [execute] with additional environment variables.
func executeWith(t *testing.T, env []string, stdin string, args ...string) result {
	t.Helper()
	cmd := command(t, "", args...)
	cmd.Env = append(cmd.Env, env...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%v; want no error or an exit code", err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func TestUsageOfAdministration(t *testing.T) {
	for _, c := range []struct {
		args string // separated by |
		code int
		text string
	}{
		{"queue", 0, ""},
		{"queue|show", 2, "missing QUEUE; usage: ledgerbus queue show QUEUE"},
		{"queue|show|a|b", 2, "missing QUEUE; usage: ledgerbus queue show QUEUE"},
		{"queue|delete|$Resources/Queues", 2, `"$Resources/Queues" is not the name of a queue: names contain no $`},
		{"queue|list|x", 2, `ledgerbus queue list takes no argument "x"; see ledgerbus queue list --help`},
		{"queue|list|-o|xml", 2, `--output: "xml" is not one of text, json, csv`},
		{"queue|create|a|--lock-duration|soon", 2, `--lock-duration: "soon" is not a duration such as 90s or 7d, or unlimited: it does not begin with a number`},
		{"queue|create|a|--max-delivery-count|-1", 2, `--max-delivery-count: "-1" is not a whole number`},
		{"queue|create|a|--status|Gone", 2, `--status: "Gone" is not one of Active, Disabled, SendDisabled, ReceiveDisabled`},
		{"queue|create|a|--access-rule|p=Read", 2, `--access-rule: "Read" is not one of the rights Send, Listen, Manage`},
		{"queue|create|a|--dead-lettering-on-filter-error", 2, "flag provided but not defined: -dead-lettering-on-filter-error; see ledgerbus queue create --help"},
		{"queue|create|a|--reason|two\nlines", 2, "--reason: The reason must be one line of UTF-8."},
		{"queue|list", 1, "list queues: connect: connection refused; check that the broker is running at 127.0.0.1:1"},
		{"queue|list|--context|a|-c|b", 2, "--connection-string and --context cannot be used together"},
		{"queue|list|--ca-file|/nonexistent", 2, "--ca-file: open /nonexistent: no such file or directory"},
		{"subscription|show|events", 2, "missing TOPIC or SUBSCRIPTION; usage: ledgerbus subscription show TOPIC SUBSCRIPTION"},
		{"subscription|show|events|a/b", 2, "missing TOPIC or SUBSCRIPTION; usage: ledgerbus subscription show TOPIC SUBSCRIPTION"},
		{"subscription|create|t|s|--sql|a=1|--match-all", 2, "--sql, --correlation, --match-all and --match-none cannot be used together: a rule has one filter"},
		{"rule|create|t|s", 2, "missing TOPIC, SUBSCRIPTION or RULE; usage: ledgerbus rule create TOPIC SUBSCRIPTION RULE"},
		{"rule|create|t|s|r|--correlation|color=blue", 2, `--correlation: "color" is not a field; for an application property write property.color=…`},
		{"rule|create|t|s|r|--correlation|label=a|--correlation|Subject=b", 2, "--correlation: Subject is given twice"},
		{"rule|create|t|s|r|--param|@a=int:5", 2, "--param: only an SQL filter has parameters"},
		{"rule|create|t|s|r|--sql|a=@a|--param|a=5", 2, `--param: "a=5" is not @NAME=VALUE`},
		{"rule|create|t|s|r|--sql|a=@a|--param|@a=int:x", 2, `--param: @a: "x" is not a valid int`},
		{"partition|list|1", 2, `ledgerbus partition list takes no argument "1"; see ledgerbus partition list --help`},
		{"partition|list|-o|xml", 2, `--output: "xml" is not one of text, json, csv`},
		{"partition|fence", 2, "missing or invalid N; usage: ledgerbus partition fence N, with a number that ledgerbus partition list shows"},
		{"partition|fence|1|2", 2, "missing or invalid N; usage: ledgerbus partition fence N, with a number that ledgerbus partition list shows"},
		{"partition|restart|orders", 2, "missing or invalid N; usage: ledgerbus partition restart N, with a number that ledgerbus partition list shows"},
		{"partition|restart|-1", 2, "missing or invalid N; usage: ledgerbus partition restart N, with a number that ledgerbus partition list shows"},
		{"partition|fence|1|--reason|two\nlines", 2, "--reason: The reason must be one line of UTF-8."},
		{"message|erase|orders", 2, "missing or invalid message; usage: ledgerbus message erase ENTITY#NUMBER, with the sequence number that log dump and receivers show"},
		{"message|erase|orders|-1", 2, "missing or invalid message; usage: ledgerbus message erase ENTITY#NUMBER, with the sequence number that log dump and receivers show"},
		{"message|erase|orders|0", 2, "missing or invalid message; usage: ledgerbus message erase ENTITY#NUMBER, with the sequence number that log dump and receivers show"},
		{"partition|list", 1, "list partitions: connect: connection refused; check that the broker is running at 127.0.0.1:1"},
		{"entities|apply", 2, "ledgerbus entities apply takes one FILE; see ledgerbus entities apply --help"},
		{"entities|apply|/nonexistent", 2, "entity file: stat /nonexistent: no such file or directory"},
		{"entities|apply|x|--exit-code", 2, "--exit-code needs --dry-run"},
		{"entities|export|-o|xml", 2, `--output: "xml" is not json or yaml`},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := execute(t, nobodyThere, "", strings.Split(c.args, "|")...)
			if got := strings.TrimPrefix(strings.TrimSpace(r.errOut), "ledgerbus: "); got != c.text || r.code != c.code {
				t.Errorf("exit code %d: %s", r.code, got)
			}
		})
	}
}

func TestHelpOfAdministration(t *testing.T) {
	for _, args := range []string{"queue create", "subscription create", "rule create", "entities apply", "entities export", "context set", "partition restart"} {
		r := execute(t, "", "", append(strings.Fields(args), "--help")...)
		if r.code != 0 || r.errOut != "" {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.errOut)
		}
		file := filepath.Join("testdata", strings.ReplaceAll(args, " ", "-")+".txt")
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
}

// The help of every command contains an example.
func TestEveryCommandHasAnExample(t *testing.T) {
	for _, group := range app().Commands {
		for _, c := range group.Subcommands {
			if group.Name != "log" && group.Name != "tls" && !strings.Contains(c.Description, "ledgerbus "+group.Name+" "+c.Name) {
				t.Errorf("%s %s: no example in\n%s", group.Name, c.Name, c.Description)
			}
		}
	}
}

func TestContexts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "in", "contexts.yaml")
	secret := filepath.Join(dir, "secret.txt")
	const text = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=rule;SharedAccessKey=topsecret;UseDevelopmentEmulator=true"
	if err := os.WriteFile(secret, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(code int, want, stdin string, args ...string) {
		t.Helper()
		env := []string{"LEDGERBUS_CONTEXTS=" + file}
		for args[0] == "env" {
			env, args = append(env, args[1]), args[2:]
		}
		r := executeWith(t, env, stdin, args...)
		if got := strings.TrimSpace(r.out + r.errOut); r.code != code || got != want || strings.Contains(got, "topsecret") {
			t.Errorf("%v: exit code %d:\n%s", args, r.code, got)
		}
	}
	run(0, "no contexts; create one with ledgerbus context set NAME", "", "context", "list")
	run(2, "ledgerbus: no context is in use; create one with ledgerbus context set NAME", "", "context", "show")
	run(0, "", text, "context", "set", "piped")
	run(0, "", "", "context", "set", "of-file", "--connection-string-file", secret, "--use")
	run(0, "", "", "env", "LEDGERBUS_CONNECTION_STRING="+strings.Replace(text, ":1;", ":2;", 1), "context", "set", "of-env", "--from-environment")
	run(2, "ledgerbus: LEDGERBUS_CONNECTION_STRING is not set", "", "context", "set", "x", "--from-environment")
	run(2, `ledgerbus: "a b" is not a valid context name: use 1 to 64 letters, digits or . - _`, text, "context", "set", "a b")
	run(2, "ledgerbus: connection string: every part must be Key=Value", "topsecret", "context", "set", "x")
	const hidden = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=rule;SharedAccessKey=***;UseDevelopmentEmulator=true"
	run(0, `{"current":true,"name":"of-file","connectionString":"`+hidden+`","caFile":""}`, "", "context", "show", "-o", "json")
	run(0, "current,name,connectionString,caFile\nfalse,of-env,"+strings.Replace(hidden, ":1;", ":2;", 1)+",\ntrue,of-file,"+hidden+",\nfalse,piped,"+hidden+",", "", "context", "list", "-o", "csv")
	const refused = ": connect: connection refused; check that the broker is running at 127.0.0.1:"
	run(1, "ledgerbus: list queues"+refused+"1", "", "queue", "list")
	run(1, "ledgerbus: list queues"+refused+"2", "", "queue", "list", "--context", "of-env")
	run(1, "ledgerbus: list queues"+refused+"2", "", "env", "LEDGERBUS_CONTEXT=of-env", "queue", "list")
	run(1, "ledgerbus: connect to 127.0.0.1:2: connect: connection refused; check that the broker is running there", "", "peek", "orders", "--context", "of-env")
	run(2, `ledgerbus: unknown context "staging"; saved contexts: of-env, of-file, piped`, "", "queue", "list", "--context", "staging")
	run(0, "", "", "context", "use", "of-env")
	run(1, "ledgerbus: list queues"+refused+"2", "", "queue", "list")
	run(0, "", "", "context", "delete", "of-env")
	run(2, "ledgerbus: no context is in use; saved contexts: of-file, piped", "", "context", "show")

	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want info.Mode().Perm() == 0o600", info.Mode(), err)
	}
	for _, name := range []string{file, secret} {
		if err := os.Chmod(name, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	run(2, "ledgerbus: contexts: "+file+" contains keys and other users can read it (mode 0640); run chmod 600 on it", "", "queue", "list")
	if err := os.WriteFile(file, []byte("contexts: topsecret"), 0o600); err != nil || os.Chmod(file, 0o600) != nil {
		t.Fatalf("%+v; want os.Chmod(file, 0o600) == nil", err)
	}
	run(2, "ledgerbus: contexts: "+file+" is not a file written by ledgerbus context set", "", "queue", "list")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	run(2, "ledgerbus: "+secret+" contains keys and other users can read it (mode 0640); run chmod 600 on it", "", "context", "set", "x", "--connection-string-file", secret)
	run(2, "ledgerbus: LEDGERBUS_CONNECTION_STRING and LEDGERBUS_CONTEXT are both set: unset one, or give --context", "",
		"env", "LEDGERBUS_CONTEXT=x", "env", "LEDGERBUS_CONNECTION_STRING="+text, "queue", "list")
}

func TestAskName(t *testing.T) {
	for typed, want := range map[string]string{
		"orders\n": "", " Orders \n": "", "orders": "", "\n": `deleting orders loses all: nothing was done because "" is not "orders"`,
		"yes\n": `deleting orders loses all: nothing was done because "yes" is not "orders"`, "": `deleting orders loses all: nothing was done because "" is not "orders"`,
	} {
		var asked strings.Builder
		err := askName(strings.NewReader(typed), &asked, "orders", "deleting orders loses all")
		if asked.String() != "deleting orders loses all.\nType orders to continue: " {
			t.Errorf("asked %q", asked.String())
		}
		if got := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && (got != want || exitCode(err) != exitUsage) {
			t.Errorf("%q: %v, exit code %d; want %q, %d", typed, err, exitCode(err), want, exitUsage)
		}
	}
}

func TestSpans(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "14d": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour, "PT90S": 90 * time.Second, "P1DT12H": 36 * time.Hour,
		"unlimited": event.Forever, "Unlimited": event.Forever, "P10675199DT2H48M5.4775807S": event.Forever, "0s": 0, "1.5s": 1500 * time.Millisecond,
	} {
		d, err := parseSpan(in)
		if err != nil || d != want {
			t.Errorf("%s: %s, %v; want d == want", in, d, err)
		}
		if back, err := parseSpan(quantity.FormatDuration(d)); err != nil || back != d {
			t.Errorf("%s: %s is read back as %s, %v", in, quantity.FormatDuration(d), back, err)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 90 * time.Minute: "1h30m", time.Hour: "1h", 10 * time.Second: "10s", 24 * time.Hour: "1d", 36*time.Hour + time.Second: "1d12h0m1s", 100 * time.Minute: "1h40m", 0: "0s",
	} {
		if got := quantity.FormatDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	for _, bad := range []string{"", "d", "5", "-1s", "soon", "P1Y", "1x", "99999d9999999h", "xd", "-1d", "110000d"} {
		if d, err := parseSpan(bad); err == nil {
			t.Errorf("%q: %s; want err != nil", bad, d)
		}
	}
}

func TestValues(t *testing.T) {
	for _, text := range []string{
		"blue", "", "a:b", "string:int:5", "int:-5", "long:9223372036854775807", "bool:true", "double:1.5", "double:+Inf", "decimal:1.50", "null:",
		"uuid:01020304-0506-0708-090a-0b0c0d0e0f10", "time:2026-01-31T08:00:00.1234567Z", "time:0001-01-01T00:00:00Z", "time:2026-01-31T08:00:00", "time:2026-01-31T08:00:00+02:00", "duration:PT1H", "duration:P1DT0.001S",
	} {
		v, err := parseValue(text)
		if err != nil || valueText(v) != text {
			t.Errorf("%s: %+v is %s, %v", text, v, valueText(v), err)
		}
	}
	if v, err := parseValue("time:2026-01-31T08:00:00.1234567Z"); err != nil || v.Bits != 639054432001234567 {
		t.Errorf("%+v, %v; want v.Bits == 639054432001234567", v, err) // ticks as .NET counts them
	}
	for _, bad := range []string{"int:", "int:1.5", "bool:maybe", "double:x", "decimal:1e5", "decimal:1.2.3", "uuid:5", "time:noon", "duration:soon", "null:x"} {
		if v, err := parseValue(bad); err == nil {
			t.Errorf("%s: %+v; want err != nil", bad, v)
		}
	}
}

func TestFilters(t *testing.T) {
	pairs := []string{"correlation-id=1", "message-id=2", "to=3", "reply-to=4", "label=5", "session-id=6", "reply-to-session-id=7", "content-type=a=b,c", "property.color=blue", "property.n=int:5"}
	f, err := parseCorrelation(pairs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pairs, correlationTexts(&f)); diff != "" {
		t.Error(diff)
	}
	for i, c := range f.Conditions {
		if c.Field != event.Field(i+1) {
			t.Errorf("%d: %s, want %s", i, c.Field, event.Field(i+1))
		}
	}
	if g, err := parseCorrelation([]string{"ReplyToSessionId=x", "subject=y"}); err != nil || g.Conditions[0].Field != event.FieldReplyToSessionID || g.Conditions[1].Field != event.FieldLabel {
		t.Errorf("%+v, %v; want g.Conditions[0].Field == event.FieldReplyToSessionID && g.Conditions[1].Field == event.FieldLabel", g, err)
	}
}

// Every property of an entity has a flag, and every flag a property.
func TestSettingsAreWhole(t *testing.T) {
	for _, kind := range []event.EntityKind{event.Queue, event.Topic, event.Subscription} {
		seen := map[any]bool{}
		var p event.Properties
		for _, s := range settingsOfEntities {
			if at := s.point(&p); s.of.has(kind) {
				if seen[at] {
					t.Errorf("%s %s: a property twice", kind, s.flag)
				}
				seen[at] = true
			}
		}
		// Every property in an entity file has a flag; access rules have separate flags.
		all := settings.Diff(nil, []engine.PutEntity{filledEntity(kind)})
		if len(all) != 1 || len(all[0].Fields) != len(seen) {
			t.Errorf("%s: %d flags for %d properties: %+v", kind, len(seen), len(all[0].Fields), all[0].Fields)
		}
	}
}

// filledEntity returns an entity without default values.
func filledEntity(kind event.EntityKind) engine.PutEntity {
	e := engine.PutEntity{Kind: kind, Path: "t/Subscriptions/s", Properties: event.Properties{UserMetadata: "x", ForwardTo: "a", ForwardDeadLetteredMessagesTo: "b", Status: event.Disabled}}
	p := &e.Properties
	for _, s := range settingsOfEntities {
		if at, isSwitch := s.point(p).(*bool); isSwitch {
			defaults := engine.DefaultProperties(kind)
			*at = !*s.point(&defaults).(*bool)
		}
	}
	return e
}
