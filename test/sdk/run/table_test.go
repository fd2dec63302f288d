package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// exampleReports are of three SDKs: one that showed what it can, one with a failure, one that is
// not installed.
func TestEveryGroupHasAHeading(t *testing.T) {
	t.Parallel()
	for _, group := range lab.Groups {
		if headings[group] == "" {
			t.Errorf("group %s has none", group)
		}
	}
}

func exampleReports() []Report {
	js := NewReport("js")
	js.Results["send-one"] = Result{ID: "send-one", Result: pass, Seconds: 0.25}
	js.Results["lock-one"] = Result{ID: "lock-one", Result: notApplicable}
	js.Took = 1234 * time.Millisecond
	python := NewReport("python")
	python.Results["send-one"] = Result{ID: "send-one", Result: pass, Seconds: 1}
	python.Results["lock-one"] = Result{ID: "lock-one", Result: fail, Error: "no lock", Seconds: 5}
	java := NewReport("java")
	java.Absent = "mvn is not installed"
	return []Report{js, python, java}
}

// withClient adds a scenario of the group jms, which one client shows.
func withClient(list lab.List) lab.List {
	list.ShownBy = map[string][]string{"jms": {"qpid-jms"}}
	list.Scenarios = append(list.Scenarios, lab.Scenario{ID: "jms-one", Group: "jms", Title: "Three.", Refs: []string{"SM-230"}, Queue: lab.Properties{}, Steps: []string{"commit"}})
	return list
}

func ofClient() Report {
	jms := NewReport("qpid-jms")
	jms.Results["jms-one"] = Result{ID: "jms-one", Result: pass, Seconds: 2}
	return jms
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	printTable(&b, withClient(exampleList(t)), append(exampleReports(), ofClient()))
	golden(t, "testdata/table.txt", b.String())
}

func TestCompatibility(t *testing.T) {
	t.Parallel()
	good := NewReport("go")
	good.Results["send-one"] = Result{ID: "send-one", Result: pass}
	good.Results["lock-one"] = Result{ID: "lock-one", Result: pass}
	split := good
	split.Partitioned = true
	split.Results = map[string]Result{"send-one": {ID: "send-one", Result: notApplicable}, "lock-one": {ID: "lock-one", Result: fail}}
	list := withClient(exampleList(t))
	list.Scenarios[0].NotPartitioned = map[string]string{"go": "its numbers have 32 bits"}
	list.Scenarios[1].Partitioned = "it is refused"
	reports := exampleReports()
	again := NewReport("python")
	again.Results["send-one"] = Result{ID: "send-one", Result: pass}
	again.Results["lock-one"] = Result{ID: "lock-one", Result: pass} // which mends nothing
	var b strings.Builder
	if err := writeCompatibility(&b, list, []column{
		{SDK: "go", Package: "azservicebus", Version: "1", Rounds: []Report{good}, Partitioned: []Report{split}},
		{SDK: "js", Package: "@azure/service-bus", Version: "2", Rounds: reports[:1]},
		{SDK: "python", Package: "azure-servicebus", Version: "3", Rounds: []Report{reports[1], again}},
		{SDK: "java", Package: "azure-messaging-servicebus", Version: "4", Rounds: reports[2:]},
		{SDK: "qpid-jms", Package: "qpid-jms-client", Version: "5", Rounds: []Report{ofClient()}},
	}, 421700*time.Millisecond, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/compatibility.md", b.String())
}

// golden compares with a file, which the environment variable REWRITE=1 writes.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("REWRITE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; REWRITE=1 go test writes it. Now:\n%s", file, got)
	}
}
