package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// Suite is how the scenarios of one client are run.
type Suite struct {
	SDK     string     // one of [lab.Clients]
	Needs   []Program  // of the runtime
	Dir     string     // where commands run, from the top of the repository
	Prepare [][]string // fetch what the suite needs and build it, once per program run
	Run     []string   // runs all scenarios, or those of LEDGERBUS_ONLY
	// variable by which the runtime is told whom to trust, where the suite cannot say so itself
	Trust   string
	Version Version

	Partitioned bool // all queues and topics are
}

// report is a report of the suite in which nothing is known yet.
func (s Suite) report() Report {
	r := NewReport(s.SDK)
	r.Partitioned = s.Partitioned
	return r
}

// suites are the suites in the order of their columns. cache is a directory that may be lost.
func suites(cache string) []Suite {
	venv, proton := filepath.Join(cache, "python"), filepath.Join(cache, "proton")
	return []Suite{
		{
			SDK: "go", Needs: []Program{{Name: "go"}}, Dir: ".",
			Run:     []string{"go", "test", "./test/sdk/go", "-run", "^TestScenarios$", "-count", "1", "-timeout", "15m"},
			Version: Version{"azservicebus", "go.mod", `sdk/messaging/azservicebus v(\S+)`},
		},
		{
			SDK: "js", Needs: []Program{{Name: "node", Asked: []string{"--version"}, Oldest: "20"}, {Name: "npm"}}, Dir: "test/sdk/js",
			Prepare: [][]string{{"npm", "ci", "--no-audit", "--no-fund"}},
			Run:     []string{"node", "scenarios.js"},
			Trust:   "NODE_EXTRA_CA_CERTS",
			Version: Version{"@azure/service-bus", "test/sdk/js/package.json", `"@azure/service-bus": "([^"]+)"`},
		},
		{
			SDK: "python", Needs: []Program{pythonRuntime}, Dir: "test/sdk/python",
			Prepare: virtual(venv),
			Run:     []string{filepath.Join(venv, "bin", "python"), "-m", "scenarios"},
			Version: Version{"azure-servicebus", "test/sdk/python/requirements.txt", `(?m)^azure-servicebus==(\S+)`},
		},
		java("java", "Scenarios", "azure-messaging-servicebus"),
		java("qpid-jms", "JmsScenarios", "qpid-jms-client"),
		{
			SDK: "qpid-proton", Needs: []Program{pythonRuntime, pythonHeaders, {Name: "cc"}}, Dir: "test/sdk/proton",
			Prepare: virtual(proton),
			Run:     []string{filepath.Join(proton, "bin", "python"), "-m", "scenarios"},
			Version: Version{"python-qpid-proton", "test/sdk/proton/requirements.txt", `(?m)^python-qpid-proton==(\S+)`},
		},
	}
}

// pythonRuntime has what makes virtual environments.
var pythonRuntime = Program{Name: "python3", Asked: []string{"-c", "import ensurepip, sys, venv; print(sys.version)"}, Oldest: "3.10"}

// pythonHeaders has what extensions in C are built with, as Qpid Proton is.
var pythonHeaders = Program{Name: "python3", Asked: []string{"-c",
	"import os, sys, sysconfig; os.stat(os.path.join(sysconfig.get_path('include'), 'Python.h')); print(sys.version)"}, Oldest: "3.10"}

// virtual makes a Python environment in a directory, with the packages of a suite.
func virtual(dir string) [][]string {
	return [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"},
	}
}

// java is a suite of the Maven project, by the class that runs it.
func java(name, class, artifact string) Suite {
	return Suite{
		SDK: name, Needs: []Program{{Name: "java", Asked: []string{"-version"}, Oldest: "17"}, {Name: "javac", Asked: []string{"-version"}, Oldest: "17"}, {Name: "mvn"}}, Dir: "test/sdk/java",
		Prepare: [][]string{{"mvn", "-q", "-B", "compile", "dependency:copy-dependencies", "-DincludeScope=runtime"}},
		Run:     []string{"java", "-cp", "target/classes" + string(os.PathListSeparator) + "target/dependency/*", "ledgerbus." + class},
		Version: Version{artifact, "test/sdk/java/pom.xml", `<artifactId>` + artifact + `</artifactId>\s*<version>([^<]+)</version>`},
	}
}

// missing says what is wrong with the first program of the runtime that is missing or will not do;
// empty: none is.
func (s Suite) missing(ctx context.Context) string {
	for _, program := range s.Needs {
		if problem := program.problem(ctx); problem != "" {
			return problem
		}
	}
	return ""
}

// prepare fetches and builds what the suite needs.
func (s Suite) prepare(ctx context.Context, output io.Writer) error {
	for _, command := range s.Prepare {
		if err := s.execute(ctx, command, nil, output); err != nil {
			return err
		}
	}
	return nil
}

// grace is how long a command that was told to end may hold its output open.
const grace = 5 * time.Second

func (s Suite) execute(ctx context.Context, command, env []string, output io.Writer) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = grace
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return nil
}

// poll is how often the file of results is looked at while a suite runs.
const poll = 200 * time.Millisecond

// run runs the suite in a lab. Each result goes to seen as it arrives; the report has all of them.
// The error is everything that was wrong with the run as a whole.
func (s Suite) run(ctx context.Context, l *lab.Lab, only []string, results string, output io.Writer, seen func(Result)) (Report, error) {
	report := s.report()
	file, err := os.OpenFile(results, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return report, err
	}
	defer file.Close()
	scenarios := filepath.Join(filepath.Dir(results), "scenarios.json")
	list, err := json.Marshal(l.List)
	if err != nil {
		return report, err
	}
	if err := os.WriteFile(scenarios, list, 0o600); err != nil {
		return report, err
	}
	authority, err := filepath.Abs(l.Authority())
	if err != nil {
		return report, err
	}
	env := []string{
		"LEDGERBUS_CONNECTION_STRING=" + l.ConnectionString(), "LEDGERBUS_TLS_CONNECTION_STRING=" + l.TLSConnectionString(),
		"LEDGERBUS_CA=" + authority, "LEDGERBUS_CONTROL=" + l.Control(),
		"LEDGERBUS_SCENARIOS=" + scenarios, "LEDGERBUS_RESULTS=" + results, "LEDGERBUS_ONLY=" + strings.Join(only, ","),
	}
	partitioned := ""
	if s.Partitioned {
		partitioned = "1"
	}
	env = append(env, "LEDGERBUS_PARTITIONED="+partitioned)
	if s.Trust != "" {
		env = append(env, s.Trust+"="+authority)
	}
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- s.execute(ctx, s.Run, env, output) }()

	var problems []error
	reader := &resultReader{from: file}
	take := func() {
		some, err := reader.read()
		problems = append(problems, err)
		for _, r := range some {
			if err := report.Add(r, l.List); err != nil {
				problems = append(problems, err)
				continue
			}
			seen(r)
		}
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			take()
		case err := <-ended:
			report.Took = time.Since(began)
			take()
			if reader.rest() {
				problems = append(problems, errors.New("the last line of the results is not whole"))
			}
			return report, errors.Join(append(problems, err)...)
		}
	}
}
