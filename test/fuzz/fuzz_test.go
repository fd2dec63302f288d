package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programVariable makes the test binary the program itself.
const programVariable = "FUZZ_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fixture is a module with targets, and with functions and files that only look like some.
var fixture = map[string]string{
	"go.mod":                        "module fixture\n\ngo 1.26\n",
	"a/a_test.go":                   "package a\n\nimport \"testing\"\n\nfunc FuzzGood(f *testing.F) {}\nfunc FuzzVerify(f *testing.F) {}\nfunc FuzzHelper(f int) {}\nfunc TestX(t *testing.T) {}\n",
	"b/b_test.go":                   "package b_test\n\nimport \"testing\"\n\nfunc FuzzBad(f *testing.F) {}\n",
	"b/b.go":                        "package b\n\nimport \"testing\"\n\nfunc FuzzElsewhere(f *testing.F) {}\n",
	"b/testdata/x_test.go":          "package x\n\nimport \"testing\"\n\nfunc FuzzTestdata(f *testing.F) {}\n",
	".hidden/x_test.go":             "package x\n\nimport \"testing\"\n\nfunc FuzzHidden(f *testing.F) {}\n",
	"node_modules/x_test.go":        "package x\n\nimport \"testing\"\n\nfunc FuzzNode(f *testing.F) {}\n",
	"other/go.mod":                  "module other\n",
	"other/x_test.go":               "package x\n\nimport \"testing\"\n\nfunc FuzzOther(f *testing.F) {}\n",
	"b/testdata/fuzz/FuzzBad/abc12": "go test fuzz v1\n",
}

// fake makes the fixture, and a command go that writes its arguments into a file and does what the
// script says.
func fake(t *testing.T, script string) (dir, bin string) {
	t.Helper()
	dir, bin = t.TempDir(), t.TempDir()
	for name, text := range fixture {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	text := "#!/bin/sh\necho \"$*\" >>\"$(dirname \"$0\")/calls\"\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, bin
}

// program runs the program in a directory and returns what it said and its exit code.
func program(t *testing.T, dir, bin string, args ...string) (string, int) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), programVariable+"=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// calls are those of the fake go, each with its arguments.
func calls(t *testing.T, bin string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(bin, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestEveryTargetRuns(t *testing.T) {
	t.Parallel()
	dir, bin := fake(t, "echo fuzz: elapsed: 3s")
	out, code := program(t, dir, bin, "--count", "1000")
	want := []string{
		"test -run ^$ -fuzz ^FuzzGood$ -fuzztime 1000x -fuzzminimizetime 10x ./a",
		"test -run ^$ -fuzz ^FuzzVerify$ -fuzztime 2x -fuzzminimizetime 10x ./a",
		"test -run ^$ -fuzz ^FuzzBad$ -fuzztime 1000x -fuzzminimizetime 10x ./b",
	}
	if got := calls(t, bin); code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d, calls %q, want %q\n%s", code, got, want, out)
	}
	for _, want := range []string{"[2/3] ./a FuzzVerify 2\n", "fuzz: elapsed: 3s\n", "3 of 3 targets"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// A failure does not keep later targets from running; it is named at the end, with its input and
// how to see it again.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says string
		want []string
	}{
		{
			"    Failing input written to testdata/fuzz/FuzzBad/abc12",
			[]string{"input:  b/testdata/fuzz/FuzzBad/abc12\n", `replay: go test -run '^FuzzBad$/^abc12$' ./b` + "\n"},
		},
		{
			"failure while testing seed corpus entry: FuzzBad/seed#3",
			[]string{"input:  seed#3\n", `replay: go test -run '^FuzzBad$/^seed#3$' ./b` + "\n"},
		},
		{
			"b_test.go:3: syntax error",
			[]string{"replay: go test -run '^$' -fuzz '^FuzzBad$' -fuzztime 7x -fuzzminimizetime 10x ./b\n"},
		},
	} {
		dir, bin := fake(t, `case "$*" in *FuzzVerify*) exit 0;; esac; case "$*" in *FuzzGood*) exit 2;; esac; echo '`+c.says+`'; exit 1`)
		out, code := program(t, dir, bin, "--count", "7")
		if code != 1 || len(calls(t, bin)) != 3 {
			t.Errorf("exit code %d, calls %q", code, calls(t, bin))
		}
		for _, want := range append(c.want, "FAILED ./a FuzzGood: exit status 2", "FAILED ./b FuzzBad: exit status 1", "2 of 3 targets failed") {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in\n%s", want, out)
			}
		}
	}
}

// go test only warns of a target that it does not have, as one that is left out on this system.
func TestTargetThatGoDoesNotFind(t *testing.T) {
	t.Parallel()
	dir, bin := fake(t, "echo 'testing: warning: no fuzz tests to fuzz'")
	if out, code := program(t, dir, bin, "--only", "FuzzGood"); code != 1 || !strings.Contains(out, "go test finds no such target") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestChoiceOfTargets(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--list":                      {0, "./a FuzzGood 500000\n./a FuzzVerify 1000\n./b FuzzBad 500000\n"},
		"--list --only ./a --count 9": {0, "./a FuzzGood 9\n./a FuzzVerify 1\n"},
		"--list --only Bad$":          {0, "./b FuzzBad 500000\n"},
		"--only FuzzNone":             {1, "fuzz: there is no such target (the program runs at the top of the repository)\n"},
		"--count 0":                   {1, "fuzz: --count is 0; it is at least 1\n"},
	} {
		dir, bin := fake(t, "exit 1")
		if out, code := program(t, dir, bin, strings.Fields(args)...); code != want.code || out != want.says {
			t.Errorf("%s: exit code %d\n%s", args, code, out)
		}
	}
	dir, bin := fake(t, "")
	if out, code := program(t, dir, bin, "--only", "("); code != 1 || !strings.Contains(out, "--only: error parsing regexp") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, code := program(t, dir, bin, "--help")
	for _, flag := range []string{"--count", "--only", "--list"} {
		if code != 0 || !strings.Contains(out, flag) {
			t.Errorf("--help: exit code %d, %s\n%s", code, flag, out)
		}
	}
}

// Of a change only the targets of packages that it concerns run.
func TestSince(t *testing.T) {
	t.Parallel()
	dir, bin := fake(t, "")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "change")
	if err := os.WriteFile(filepath.Join(dir, "b/new.go"), []byte("package b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for since, want := range map[string]string{
		"HEAD":    "./b FuzzBad 500000\n",
		"no-such": "./a FuzzGood 500000\n./a FuzzVerify 1000\n./b FuzzBad 500000\n",
	} {
		if out, code := program(t, dir, bin, "--list", "--since", since); code != 0 || out != want {
			t.Errorf("--since %s: exit code %d\n%s", since, code, out)
		}
	}
}

// Where the list of targets with fewer executions has a name that no target has any more, the
// target that was renamed would run for hours.
func TestSharesAreOfTargets(t *testing.T) {
	t.Parallel()
	targets, err := find("../..", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for name := range shares {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.name == name }) {
			t.Errorf("there is no %s", name)
		}
	}
	if len(targets) < 20 {
		t.Errorf("%d targets: %v", len(targets), targets)
	}
}
