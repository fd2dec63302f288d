package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// Every statement about partitioned entities is named by a scenario or a test, or has a sentence;
// and the page has them all.
func TestStatementsAboutPartitioned(t *testing.T) {
	t.Parallel()
	list, err := lab.ReadScenarios("../scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	all, err := partitioned("../../..", list)
	if err != nil || len(all) != 72 {
		t.Fatalf("%d statements, %v", len(all), err)
	}
	var p page
	p.statements(all)
	for id := range unshown {
		if !strings.Contains(p.text.String(), "| "+id+" | ") {
			t.Errorf("%s is no statement", id)
		}
	}
}

func TestNamedByTests(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a/b_test.go", "package a\n\n// S4-01, and on a\n// second line S4-03 to\n// S4-05.\nfunc TestOne(t *testing.T) {}\n\n// S4-09: no test.\nvar x = 1\n\nfunc TestTwo(t *testing.T) {}\n")
	write("node_modules/c_test.go", "package c\n\n// S4-07.\nfunc TestThree(t *testing.T) {}\n")
	write("docs/rules/statements.md", "| S4-01 | One. | Try. | x |\n| S4-02 | Two. | Try. | x |\n")
	named, err := namedByTests(root)
	if err != nil || len(named) != 4 || named["S4-04"][0] != "a.TestOne" {
		t.Errorf(`%v, %v; want len(named) == 4 && named["S4-04"][0] == "a.TestOne"`, named, err)
	}
	if _, err := partitioned(root, lab.List{}); err == nil || !strings.Contains(err.Error(), "S4-02 has the tests []") {
		t.Errorf("one that nothing shows: %v", err)
	}
	all, err := partitioned(root, lab.List{Scenarios: []lab.Scenario{{ID: "two", Refs: []string{"S4-02"}}}})
	if err != nil || len(all) != 2 || all[1].By[0] != "two" {
		t.Errorf(`%+v, %v; want len(all) == 2 && all[1].By[0] == "two"`, all, err)
	}
}
