package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProgramProblem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ name, says, want string }{
		{"node", "echo v18.19.0", "node 18.19.0 is installed, 20 is needed"},
		{"node", "echo v20.0.0", ""},
		{"node", "echo v100.1.0", ""},
		{"java", `echo 'openjdk version "1.8.0_362"' >&2`, "java 1.8.0 is installed, 20 is needed"},
		{"python3", "echo Traceback; echo 'No module named ensurepip'; exit 1", "python3: No module named ensurepip (exit status 1)"},
		{"node", "echo hello", "node does not tell its version, and 20 is needed"},
	} {
		file := filepath.Join(dir, c.name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+c.says+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		got := Program{Name: file, Asked: []string{"--version"}, Oldest: "20"}.problem(t.Context())
		want := c.want
		if want != "" {
			want = dir + "/" + want
		}
		if got != want {
			t.Errorf("%s: %q, want %q", c.says, got, want)
		}
	}
	if got := (Program{Name: "no-such-program"}).problem(t.Context()); got != "no-such-program is not installed" {
		t.Errorf(`%q, want "no-such-program is not installed"`, got)
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, than string
		want          bool
	}{
		{"20", "20", false}, {"20.1", "20", false}, {"20", "20.1", true}, {"3.9.18", "3.10", true}, {"3.10", "3.10", false},
		{"3.11.7", "3.10", false}, {"9", "17", true}, {"17.0.15", "17", false},
	} {
		if older(c.version, c.than) != c.want {
			t.Errorf("%s older than %s: %t", c.version, c.than, !c.want)
		}
	}
}
