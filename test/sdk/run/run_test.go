package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// fakeSuiteVariable makes the test binary a suite that behaves as its value says.
const fakeSuiteVariable = "RUN_FAKE_SUITE"

// programVariable makes the test binary the program itself.
const programVariable = "RUN_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		os.Exit(0)
	}
	if kind := os.Getenv(fakeSuiteVariable); kind != "" {
		os.Exit(fakeSuite(kind))
	}
	os.Exit(m.Run())
}

// fakeSuite does what suites do, well or badly, and returns its exit code.
func fakeSuite(kind string) int {
	results, err := os.OpenFile(os.Getenv("LEDGERBUS_RESULTS"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return 9
	}
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(results, format, args...) }
	switch kind {
	case "good":
		if list, err := lab.ReadScenarios(os.Getenv("LEDGERBUS_SCENARIOS")); err != nil || len(list.Scenarios) != 2 {
			return 8
		}
		if response, err := http.Post(os.Getenv("LEDGERBUS_CONTROL")+"/cut", "", nil); err != nil || response.StatusCode != http.StatusOK {
			return 7
		}
		if !strings.HasPrefix(os.Getenv("LEDGERBUS_CONNECTION_STRING"), "Endpoint=sb://localhost:") {
			return 6
		}
		if strings.Contains(os.Getenv("LEDGERBUS_TLS_CONNECTION_STRING"), "Emulator") || !filepath.IsAbs(os.Getenv("LEDGERBUS_CA")) {
			return 5
		}
		if os.Getenv("RUN_FAKE_TRUST") != os.Getenv("LEDGERBUS_CA") {
			return 4
		}
		if list, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("LEDGERBUS_RESULTS")), "entities.json")); err != nil ||
			(os.Getenv("LEDGERBUS_PARTITIONED") == "1") != strings.Contains(string(list), `"EnablePartitioning": true`) {
			return 3
		}
		for id := range strings.SplitSeq(os.Getenv("LEDGERBUS_ONLY"), ",") {
			line, _ := json.Marshal(Result{ID: id, Result: pass, Seconds: 0.5})
			write("%s\n", line)
		}
	case "faulty":
		write(`{"id": "send-one", "result": "pass"}` + "\n" + `{"id": "lock-one", "result": "pass"}` + "\n")
		said := `time=now level=INFO msg="servicebus: protocol fault" connection=7` + "\n"
		if err := os.WriteFile(filepath.Join(filepath.Dir(os.Getenv("LEDGERBUS_RESULTS")), "stderr"), []byte(said), 0o600); err != nil {
			return 9
		}
	case "silent":
	case "bad":
		fmt.Println("the suite's last words")
		write(`{"id": "send-one", "result": "pass"}` + "\n" + `{"id": "send-one", "result": "pass"}` + "\n" + "nonsense\n" + `{"id": "lock-one"`)
		return 3
	case "endless":
		write(`{"id": "send-one", "result": "pass"}` + "\n")
		select {}
	}
	return 0
}

// example is a list of two queues, the second only for those that can.
const example = `{
  "base": {"LockDuration": "PT1M", "MaxDeliveryCount": 10},
  "errors": {"lock-lost": {"go": "a", "js": "b", "python": "c", "java": "d"}},
  "scenarios": [
    {"id": "send-one", "group": "send", "title": "One.", "refs": ["SM-001"], "queue": {}, "steps": ["send A"]},
    {"id": "lock-one", "group": "locks", "title": "Two | more.", "refs": ["SM-020", "WP-118"], "queue": {"LockDuration": "PT5S"},
     "steps": ["complete A: error lock-lost"], "not": {"js": "it has no locks"}, "note": {"go": "by hand"}}
  ]
}`

func exampleList(t *testing.T) lab.List {
	t.Helper()
	list, err := lab.ParseScenarios([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// fakeProcess is a broker to which nobody connects. stderr is the file with its diagnostics.
type fakeProcess struct{ stderr string }

func (fakeProcess) Start() (time.Duration, error) { return 0, nil }
func (fakeProcess) Kill() error                   { return nil }
func (fakeProcess) Stop() error                   { return nil }
func (fakeProcess) Authority() string             { return "ca.pem" }
func (p fakeProcess) Stderr() string              { return p.stderr }
func (fakeProcess) ConnectionString() string {
	return "Endpoint=sb://localhost:1;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true;"
}

// root is the project's directory, wherever an earlier call of fake in the same test has gone.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// fake prepares the run of a fake suite and of the example's scenarios.
func fake(t *testing.T, kind string) (*runner, *strings.Builder) {
	t.Helper()
	t.Chdir(root(t)) // where the program runs
	t.Setenv(fakeSuiteVariable, kind)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	list := exampleList(t)
	var ids []string
	for _, s := range list.Scenarios {
		ids = append(ids, s.ID)
	}
	return &runner{
		options: options{Entities: plainEntities, Rounds: 1, Scenarios: ids, Timeout: time.Minute}, budget: time.Minute,
		list: list, suites: []Suite{{SDK: "go", Dir: ".", Run: []string{binary}, Trust: "RUN_FAKE_TRUST"}}, dir: t.TempDir(), w: &out,
		open: func(dir string, list lab.List) (*lab.Lab, error) {
			return lab.New(list, dir, fakeProcess{filepath.Join(dir, "stderr")})
		},
	}, &out
}

func TestGoodSuite(t *testing.T) {
	r, out := fake(t, "good")
	r.Rounds = 2
	failures, err := r.rounds(t.Context())
	if err != nil || failures != 0 || len(r.reports) != 2 {
		t.Fatalf("%d failures of %d reports, %v\n%s", failures, len(r.reports), err, out)
	}
	for _, report := range r.reports {
		if len(report.Results) != 2 || len(report.Problems) != 0 || report.Took == 0 {
			t.Errorf("%+v; want len(report.Results) == 2 && len(report.Problems) == 0 && report.Took != 0", report)
		}
	}
	for _, want := range []string{"go     ✓   send-one", "round 2 of 2", "✓ 0.5 s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestSilentSuite(t *testing.T) {
	r, out := fake(t, "silent")
	failures, err := r.rounds(t.Context())
	if err != nil || failures != 2 || !strings.Contains(out.String(), "go send-one: no result") || !strings.Contains(out.String(), "go lock-one: no result") {
		t.Errorf("%d failures, %v\n%s", failures, err, out)
	}
}

func TestBadSuite(t *testing.T) {
	r, out := fake(t, "bad")
	if _, err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a second result", `"nonsense"`, "last line of the results is not whole", "exit status 3", "the suite's last words", "go lock-one: no result"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// A suite whose scenarios all pass has failed if the broker found fault with what its SDK sent.
func TestFaultySuite(t *testing.T) {
	r, out := fake(t, "faulty")
	if failures, err := r.rounds(t.Context()); err != nil || failures != 1 || !strings.Contains(out.String(), "protocol fault\" connection=7") {
		t.Errorf("%d failures, %v\n%s", failures, err, out)
	}
}

func TestSuiteThatDoesNotEnd(t *testing.T) {
	r, out := fake(t, "endless")
	l, err := r.open(t.TempDir(), r.list)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	results := filepath.Join(t.TempDir(), "results.jsonl")
	report, err := r.suites[0].run(ctx, l, nil, results, out, func(Result) { cancel(fmt.Errorf("not ended after a while")) })
	if err == nil || !strings.Contains(err.Error(), "not ended after a while") || len(report.Results) != 1 {
		t.Errorf(`%+v, %v; want err != nil && strings.Contains(err.Error(), "not ended after a while") && len(report.Results) == 1`, report, err)
	}
}

func TestMissingRuntime(t *testing.T) {
	r, out := fake(t, "good")
	r.suites[0].Needs = []Program{{Name: "no-such-program"}}
	if failures, err := r.rounds(t.Context()); err != nil || failures != 0 || !strings.Contains(out.String(), "go not run: no-such-program is not installed") {
		t.Errorf("by default: %d failures, %v\n%s", failures, err, out)
	}
	r.CI = true
	if failures, err := r.rounds(t.Context()); err != nil || failures != 1 {
		t.Errorf("in CI: %d failures, %v", failures, err)
	}
	r.SDKs = []string{"go"}
	if _, err := r.rounds(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-program is not installed") {
		t.Errorf("asked for: %v", err)
	}
}

// One round of all suites that takes longer than it may has failed, however well they went; some
// suites may take what they take.
func TestBudget(t *testing.T) {
	r, out := fake(t, "good")
	one := r.suites[0]
	r.suites = nil
	for _, sdk := range lab.Clients {
		s := one
		s.SDK = sdk
		r.suites = append(r.suites, s)
	}
	r.list.ShownBy = map[string][]string{}
	for i := range r.list.Scenarios {
		r.list.Scenarios[i].Not = nil
		r.list.ShownBy[r.list.Scenarios[i].Group] = lab.Clients
	}
	for kind := range r.list.Errors {
		for _, client := range lab.Clients {
			r.list.Errors[kind][client] = "e"
		}
	}
	if failures, err := r.rounds(t.Context()); err != nil || failures != 0 || r.longest == 0 || strings.Contains(out.String(), "may take") {
		t.Errorf("in time: %d failures, %v, longest %s\n%s", failures, err, r.longest, out)
	}
	r, out = again(t, r, 1)
	if failures, err := r.rounds(t.Context()); err != nil || failures != 1 || !strings.Contains(out.String(), "and may take 1ns") {
		t.Errorf("too late: %d failures, %v\n%s", failures, err, out)
	}
	r, out = again(t, r, 1)
	r.suites = r.suites[1:]
	if failures, err := r.rounds(t.Context()); err != nil || failures != 0 || r.longest != 0 {
		t.Errorf("all but one: %d failures, %v, longest %s\n%s", failures, err, r.longest, out)
	}
}

// again is a runner like another, with a budget.
func again(t *testing.T, r *runner, budget time.Duration) (*runner, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	like := &runner{options: r.options, list: r.list, suites: r.suites, dir: t.TempDir(), w: &out, open: r.open}
	like.budget = budget
	return like, &out
}

// What failed makes the error, and what was left behind stays then.
func TestFailuresAreTheError(t *testing.T) {
	for _, c := range []struct{ kind, want string }{{"silent", "2 failures"}, {"good", ""}, {"bad", "failures"}} {
		r, out := fake(t, c.kind)
		switch err := r.all(t.Context(), r.suites); {
		case (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q\n%s", c.kind, err, c.want, out)
		case err != nil && !strings.Contains(err.Error(), r.dir):
			t.Errorf("%s: %v does not say where its logs are", c.kind, err)
		default:
			if _, left := os.Stat(r.dir); (left == nil) != (c.want != "") {
				t.Errorf("%s: the directory: %v", c.kind, left)
			}
		}
	}
	r, _ := fake(t, "good")
	r.suites[0].Needs, r.SDKs = []Program{{Name: "no-such-program"}}, []string{"go"}
	if err := r.all(t.Context(), r.suites); err == nil || strings.Contains(err.Error(), r.dir) {
		t.Errorf("where nothing ran: %v", err)
	}
}

// The program's exit code is what make and CI see.
func TestExitCode(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{"--sdk go --rounds 0": 0, "--sdk ruby": 1, "--scenario no-such-scenario": 1} {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(args)...)
		cmd.Dir = "../../.."
		cmd.Env = append(os.Environ(), programVariable+"=1")
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s: exit code %d, want %d\n%s", args, cmd.ProcessState.ExitCode(), want, out)
		}
	}
}

func TestFailingPreparation(t *testing.T) {
	r, _ := fake(t, "good")
	r.suites[0].Prepare = [][]string{{"go", "no-such-command"}}
	if _, err := r.rounds(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf(`%v; want err != nil && strings.Contains(err.Error(), "no-such-command")`, err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := suites(t.TempDir())
	var names []string
	for _, s := range all {
		names = append(names, s.SDK)
	}
	if !slices.Equal(names, lab.Clients) {
		t.Errorf("suites of %v, columns of %v", names, lab.Clients)
	}
	if some, err := choose(all, []string{"java", "go"}); err != nil || len(some) != 2 || some[0].SDK != "java" {
		t.Errorf(`%+v, %v; want len(some) == 2 && some[0].SDK == "java"`, some, err)
	}
	if _, err := choose(all, []string{"ruby"}); err == nil || !strings.Contains(err.Error(), `"ruby"`) {
		t.Errorf("%v; want err != nil && strings.Contains(err.Error(), `\"ruby\"`)", err)
	}
}

// The suites of SDKs run on each kind of entities, those of plain AMQP on plain ones alone.
func TestKinds(t *testing.T) {
	t.Parallel()
	for entities, want := range map[string]string{
		"plain":       "go, qpid-jms",
		"partitioned": "go partitioned",
		"both":        "go, go partitioned, qpid-jms",
	} {
		some, err := kinds([]Suite{{SDK: "go"}, {SDK: "qpid-jms"}}, entities)
		var names []string
		for _, s := range some {
			names = append(names, s.report().name())
		}
		if err != nil || strings.Join(names, ", ") != want {
			t.Errorf(`%s: %q, %v; want strings.Join(names, ", ") == want`, entities, names, err)
		}
	}
	if _, err := kinds(nil, "split"); err == nil || !strings.Contains(err.Error(), `"split"`) {
		t.Errorf("%v; want err != nil && strings.Contains(err.Error(), `\"split\"`)", err)
	}
}

// A suite that runs twice is readied once, has a broker of its own each time, and is told what it
// runs on.
func TestBothKinds(t *testing.T) {
	r, out := fake(t, "good")
	r.suites[0].Prepare = [][]string{{"go", "version"}}
	r.Entities = bothEntities
	suites, err := kinds(r.suites, r.Entities)
	if err != nil {
		t.Fatal(err)
	}
	r.suites = suites
	failures, err := r.rounds(t.Context())
	if err != nil || failures != 0 || len(r.reports) != 2 || r.reports[0].Partitioned || !r.reports[1].Partitioned {
		t.Fatalf("%d failures, %v, %+v\n%s", failures, err, r.reports, out)
	}
	if strings.Count(out.String(), "preparing") != 1 || !strings.Contains(out.String(), "go partitioned ✓   send-one") {
		t.Errorf(`%+v; want strings.Count(out.String(), "preparing") == 1 && strings.Contains(out.String(), "go partitioned ✓   send-one")`, out)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "requirements.txt")
	if err := os.WriteFile(file, []byte("# pinned\nazure-servicebus==7.15.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := (Version{"azure-servicebus", file, `(?m)^azure-servicebus==(\S+)`}).Read(); err != nil || v != "7.15.0" {
		t.Errorf(`%q, %v; want v == "7.15.0"`, v, err)
	}
	if _, err := (Version{"other", file, `other==(\S+)`}).Read(); err == nil || !strings.Contains(err.Error(), "pins no version of other") {
		t.Errorf(`%v; want err != nil && strings.Contains(err.Error(), "pins no version of other")`, err)
	}
}

func TestTableIsOfAllScenarios(t *testing.T) {
	t.Parallel()
	for _, o := range []options{{Table: "x.md", Scenarios: []string{"send-one"}}, {Check: "x.md", Scenarios: []string{"send-one"}}} {
		if err := run(t.Context(), o, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "--scenario") {
			t.Errorf("a page of some scenarios: %v", err)
		}
	}
}
