package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programVariable makes the test binary the program itself.
const programVariable = "ALL_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeCommand is go, npm and the compiler cc of these tests. It notes its calls, and fails where FAKE_FAILS is a part of one.
const fakeCommand = `#!/bin/sh
call="$(basename "$0") $*"
case "$call" in
"go list ./...") printf 'MODULE/engine\nMODULE/engine/host\nMODULE/log\nMODULE/test/sdk/go\nMODULE/test/sdk/run\n' | sed 's,MODULE,github.com/ledgerbus/ledgerbus,'; exit;;
"go env CC") echo "$FAKE_CC -m64"; exit;;
esac
echo "${LEDGERBUS_PARTITIONED:+partitioned }${LEDGERBUS:+LEDGERBUS=$LEDGERBUS }$call in $PWD" >>"$FAKE_CALLS"
[ -z "$FAKE_FAILS" ] && exit
case "$call" in *"$FAKE_FAILS"*) echo "that fails" >&2; exit 3;; esac
`

// top is a repository's top, with the commands of the tests.
type top struct {
	t        *testing.T
	dir, bin string
}

func fake(t *testing.T) top {
	t.Helper()
	at := top{t, t.TempDir(), t.TempDir()}
	if err := os.MkdirAll(filepath.Join(at.dir, "test/sdk/js"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go", "npm", "cc"} {
		if err := os.WriteFile(filepath.Join(at.bin, name), []byte(fakeCommand), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// run runs the program and returns what it said and its exit code.
func (at top) run(env []string, args ...string) (string, int) {
	at.t.Helper()
	binary, err := os.Executable()
	if err != nil {
		at.t.Fatal(err)
	}
	cmd := exec.CommandContext(at.t.Context(), binary, args...)
	cmd.Dir = at.dir
	path := "PATH=" + at.bin + string(os.PathListSeparator) + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), programVariable+"=1", path, "FAKE_CC=cc", "FAKE_CALLS="+at.bin+"/calls", "CI=", "LEDGERBUS=")
	cmd.Env = append(cmd.Env, env...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// calls are those of all commands, without the directory.
func (at top) calls() []string {
	at.t.Helper()
	text, err := os.ReadFile(filepath.Join(at.bin, "calls"))
	if err != nil {
		at.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), at.dir, "TOP")), "\n")
}

var (
	plain   = "go test -short -timeout 60m " + module + "engine " + module + "log " + module + "test/sdk/run in TOP"
	under   = "go test -short -timeout 60m -race " + module + "engine/host in TOP"
	inPart  = "go test -short -timeout 60m -race -skip ^(" + strings.Join(slowAlone, "|") + ")$ " + module + "log in TOP"
	goTests = "go test -short -timeout 60m -race ./test/sdk/go in TOP"
	goSplit = "partitioned go test -short -timeout 60m -race -run ^TestScenarios$ ./test/sdk/go in TOP"
	jsTests = []string{
		"npm ci --no-audit --no-fund in TOP/test/sdk/js",
		"LEDGERBUS=TOP/bin/ledgerbus npm test in TOP/test/sdk/js",
		"go run ./test/sdk/run --sdk js in TOP",
	}
)

func probe(sdk string) string     { return "go run ./test/sdk/run --sdk " + sdk + " --rounds 0 in TOP" }
func scenarios(sdk string) string { return "go run ./test/sdk/run --sdk " + sdk + " in TOP" }
func both(sdk string) string      { return "go run ./test/sdk/run --sdk " + sdk + " --entities both in TOP" }

func TestEverythingRuns(t *testing.T) {
	t.Parallel()
	at := fake(t)
	out, code := at.run(nil)
	want := slices.Concat([]string{plain, under, inPart, goTests, goSplit, probe("js")}, jsTests, []string{probe("python"), scenarios("python"), probe("java"), both("java"),
		probe("qpid-jms"), scenarios("qpid-jms"), probe("qpid-proton"), scenarios("qpid-proton")})
	if got := at.calls(); code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d, calls\n%s\nwant\n%s\n%s", code, strings.Join(got, "\n"), strings.Join(want, "\n"), out)
	}
	if !strings.Contains(out, "(cd test/sdk/js && LEDGERBUS="+at.dir+"/bin/ledgerbus npm test)\n") {
		t.Errorf("it does not say what it runs:\n%s", out)
	}
}

// An SDK whose runtime is missing is left out, and the next one runs; with CI=true, and when it was asked for, it is a failure.
func TestMissingRuntime(t *testing.T) {
	t.Parallel()
	missing := "FAKE_FAILS=--sdk js --rounds 0"
	at := fake(t)
	out, code := at.run([]string{missing})
	if got := at.calls(); code != 0 || !strings.Contains(out, "that fails\njs left out\n") || slices.Contains(got, jsTests[0]) || !slices.Contains(got, both("java")) {
		t.Errorf("exit code %d, calls %q\n%s", code, got, out)
	}
	at = fake(t)
	out, code = at.run([]string{missing, "CI=true"})
	if got := at.calls(); code != 1 || strings.Contains(out, "left out") || !slices.Equal(got, []string{plain, under, inPart, goTests, goSplit, probe("js")}) {
		t.Errorf("CI=true: exit code %d, calls %q\n%s", code, got, out)
	}
	at = fake(t)
	if out, code := at.run([]string{missing}, "--only", "js"); code != 1 || !slices.Equal(at.calls(), []string{probe("js")}) {
		t.Errorf("asked for: exit code %d, calls %q\n%s", code, at.calls(), out)
	}
}

func TestItStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	for fails, last := range map[string]string{module + "engine ": plain, module + "engine/host": under, "-skip": inPart, "./test/sdk/go": goTests, "npm test": jsTests[1]} {
		at := fake(t)
		out, code := at.run([]string{"FAKE_FAILS=" + fails})
		if got := at.calls(); code != 1 || got[len(got)-1] != last || !strings.Contains(out, "exit status 3") {
			t.Errorf("%s: exit code %d, calls %q\n%s", fails, code, got, out)
		}
	}
}

func TestChoiceOfParts(t *testing.T) {
	t.Parallel()
	at := fake(t)
	if out, code := at.run(nil, "--only", "python,go"); code != 0 || !slices.Equal(at.calls(), []string{probe("python"), scenarios("python"), goTests, goSplit}) {
		t.Errorf("exit code %d, calls %q\n%s", code, at.calls(), out)
	}
	at = fake(t)
	if out, code := at.run(nil, "--only", "ruby"); code != 1 || !strings.Contains(out, `no part is called "ruby"`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, code := at.run(nil, "--list", "--only", "java,go")
	if want := "go run ./test/sdk/run --sdk java --entities both\ngo test -short -timeout 60m -race ./test/sdk/go\n" +
		"LEDGERBUS_PARTITIONED=1 go test -short -timeout 60m -race -run ^TestScenarios$ ./test/sdk/go\n"; code != 0 || out != want {
		t.Errorf("--list: exit code %d\n%s", code, out)
	}
	if out, code := at.run(nil, "--help"); code != 0 || !strings.Contains(out, "--only") || !strings.Contains(out, "--list") {
		t.Errorf("--help: exit code %d\n%s", code, out)
	}
}

func TestWithoutACompiler(t *testing.T) {
	t.Parallel()
	at := fake(t)
	out, code := at.run([]string{"FAKE_CC=no-such-compiler"}, "--only", "go")
	if got := at.calls(); code != 0 || !slices.Equal(got, []string{strings.Replace(goTests, " -race", "", 1), strings.Replace(goSplit, " -race", "", 1)}) || !strings.Contains(out, "no C compiler") {
		t.Errorf("exit code %d, calls %q\n%s", code, got, out)
	}
}

// TestRacedIsThere checks that what is tested under the race detector, and what is left out of it, still exists: a package or test
// that was renamed would otherwise be tested differently from then on, without a word.
func TestRacedIsThere(t *testing.T) {
	t.Parallel()
	for _, below := range raced {
		if tests, err := filepath.Glob(filepath.Join("../..", below, "*_test.go")); err != nil || len(tests) == 0 {
			t.Errorf("%s has no tests (%v)", below, err)
		}
	}
	tests, err := filepath.Glob(filepath.Join("../..", racedInPart, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, path := range tests {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(source)
	}
	for _, name := range slowAlone {
		if !strings.Contains(text.String(), "func "+name+"(t *testing.T)") {
			t.Errorf("%s has no test %s", racedInPart, name)
		}
	}
}
