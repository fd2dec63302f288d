package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// pinned are suites of which only the version matters.
func pinned(t *testing.T, versions map[string]string) []Suite {
	t.Helper()
	var all []Suite
	for _, sdk := range lab.SDKs {
		file := filepath.Join(t.TempDir(), sdk)
		if err := os.WriteFile(file, []byte("version "+versions[sdk]), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, Suite{SDK: sdk, Version: Version{"package-" + sdk, file, `version (\S+)`}})
	}
	return all
}

// pageOf writes the page of a run, in which an SDK may have failed at a scenario.
func pageOf(t *testing.T, list lab.List, all []Suite, failing string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	r := &runner{options: options{Table: file}, list: list, longest: 11 * time.Minute}
	for _, s := range all {
		report := allShown(s.SDK, list, false)
		if s.SDK == failing {
			report.Results["send-one"] = Result{ID: "send-one", Result: fail}
		}
		r.reports = append(r.reports, report, allShown(s.SDK, list, true))
	}
	if err := r.writeTable(all); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFreshPage(t *testing.T) {
	t.Parallel()
	list := exampleList(t)
	all := pinned(t, map[string]string{"go": "1.0", "js": "2.0", "python": "3.0", "java": "4.0"})
	page := pageOf(t, list, all, "")
	if err := checkFresh(page, list, all, nil); err != nil {
		t.Error(err)
	}
	newer := pinned(t, map[string]string{"go": "1.0", "js": "2.1", "python": "3.0", "java": "4.0"})
	renamed, fewer, unexcused := exampleList(t), exampleList(t), exampleList(t)
	renamed.Scenarios[0].Title = "Another."
	fewer.Scenarios = fewer.Scenarios[:1]
	unexcused.Scenarios[1].Not = nil
	for _, c := range []struct {
		name, page string
		list       lab.List
		all        []Suite
		want       string
	}{
		{"another version", page, list, newer, "should: | js | package-js | 2.1 | plain |"},
		{"another title", page, renamed, all, "should: | Another. | send-one |"},
		{"a scenario too many", page, fewer, all, "there:  | go | package-go | 1.0 | plain | 2 |"},
		{"an exception that has gone", page, unexcused, all, "there:  | js | package-js | 2.0 | plain | 1 | 0 | 0 | 1 |"},
		{"a failure", pageOf(t, list, all, "java"), list, all, "there:  | java | package-java | 4.0 | plain | 1 | 1 |"},
		{"no page", filepath.Join(t.TempDir(), "none.md"), list, all, "none.md"},
	} {
		if err := checkFresh(c.page, c.list, c.all, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestFirstDifference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want, difference string }{
		{"a\nb", "a\nb", ""},
		{"a\nb", "a\nc", "there:  b\nshould: c"},
		{"a", "a\nc", "there:  (the end)\nshould: c"},
		{"a\nb", "a", "there:  b\nshould: (the end)"},
	} {
		if got := firstDifference(c.got, c.want); got != c.difference {
			t.Errorf("%q and %q: %q, want %q", c.got, c.want, got, c.difference)
		}
	}
}
