package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

func TestResultsArriveLineByLine(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	reader := &resultReader{from: &file}
	for _, step := range []struct {
		written string
		want    []string
		err     string
		rest    bool
	}{
		{"", nil, "", false},
		{`{"id": "a", "result": "pass", "sec`, nil, "", true},
		{`onds": 1.5}` + "\n" + `{"id": "b", "result": "fail", "error": "no"}` + "\n\n", []string{"a pass ", "b fail no"}, "", false},
		{"oops\n" + `{"id": "c", "result": "n/a"}` + "\n", []string{"c n/a "}, `"oops"`, false},
		{`{"id": "d", "outcome": "pass"}` + "\n", nil, "outcome", false},
		{`{"id": "e"`, nil, "", true},
	} {
		file.WriteString(step.written)
		results, err := reader.read()
		var got []string
		for _, r := range results {
			got = append(got, r.ID+" "+r.Result+" "+r.Error)
		}
		if !slices.Equal(got, step.want) || (err == nil) != (step.err == "") || (err != nil && !strings.Contains(err.Error(), step.err)) || reader.rest() != step.rest {
			t.Errorf("after %q: %q, %v, rest %t", step.written, got, err, reader.rest())
		}
	}
}

func TestReportTakes(t *testing.T) {
	t.Parallel()
	list, r := exampleList(t), NewReport("go")
	if err := r.Add(Result{ID: "send-one", Result: pass}, list); err != nil {
		t.Error(err)
	}
	for want, result := range map[string]Result{
		"a second result, fail, after pass":  {ID: "send-one", Result: fail},
		`"nowhere", which was not asked for`: {ID: "nowhere", Result: pass},
		`not "ok"`:                           {ID: "lock-one", Result: "ok"},
	} {
		if err := r.Add(result, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want err != nil && strings.Contains(err.Error(), want)", result, err)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	plain := lab.Scenario{ID: "x"}
	excused := lab.Scenario{ID: "x", Not: map[string]string{"go": "no call"}}
	for _, c := range []struct {
		scenario lab.Scenario
		result   string
		want     Verdict
	}{
		{plain, pass, Verdict{Mark: shown}},
		{plain, fail, Verdict{failed, "why"}},
		{plain, "", Verdict{failed, "no result"}},
		{plain, notApplicable, Verdict{failed, "n/a, but the list does not say why"}},
		{excused, notApplicable, Verdict{Mark: cannot}},
		{excused, fail, Verdict{failed, "why"}},
		{excused, "", Verdict{failed, "no result"}},
		{excused, pass, Verdict{failed, "passed, but the list says that it cannot: no call"}},
	} {
		r := NewReport("go")
		if c.result != "" {
			r.Results["x"] = Result{ID: "x", Result: c.result, Error: "why"}
		}
		if got := r.Verdict(c.scenario); got != c.want {
			t.Errorf("%q, excused %v: %+v, want %+v", c.result, c.scenario.Not, got, c.want)
		}
	}
	half := NewReport("go")
	half.Partitioned = true
	half.Results["x"] = Result{ID: "x", Result: notApplicable}
	if got := half.Verdict(lab.Scenario{ID: "x", NotPartitioned: map[string]string{"go": "no room"}}); got != (Verdict{Mark: cannot}) {
		t.Errorf("excused of partitioned entities alone: %+v", got)
	}
	half.Partitioned = false
	if got := half.Verdict(lab.Scenario{ID: "x", NotPartitioned: map[string]string{"go": "no room"}}); got.Mark != failed {
		t.Errorf("of plain ones too: %+v", got)
	}
	absent := NewReport("go")
	absent.Absent = "go is not installed"
	if got := absent.Verdict(plain); got != (Verdict{Mark: unknown}) {
		t.Errorf("not installed: %+v", got)
	}
}
