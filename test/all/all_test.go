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

// fakeCommand is go, make, npm, git and the compiler cc of these tests. It notes its calls, and
// fails where FAKE_FAILS is a part of one. Git knows what has changed since the commit before where
// FAKE_CHANGED says so, and otherwise no commits.
const fakeCommand = `#!/bin/sh
call="$(basename "$0") $*"
case "$call" in
"go list ./...") printf 'MODULE/engine\nMODULE/log\nMODULE/log/disk\nMODULE/test/guide\nMODULE/test/sdk/go\nMODULE/test/sdk/run\nMODULE/test/torture\n' | sed 's,MODULE,github.com/ledgerbus/ledgerbus,'; exit;;
"go env CC") echo "$FAKE_CC -m64"; exit;;
"git rev-parse --verify"*) [ -n "$FAKE_CHANGED" ] && echo 0123abc; exit;;
"git diff"*) printf '%s\n' $FAKE_CHANGED; exit;;
git*) exit;;
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
	for _, name := range []string{"go", "make", "npm", "git", "cc"} {
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
	cmd.Env = append(os.Environ(), programVariable+"=1", path, "FAKE_CC=cc", "FAKE_CALLS="+at.bin+"/calls", "CI=", "LEDGERBUS=", "BASE=", "FAKE_CHANGED=")
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
	plain      = "go test -timeout 60m -short " + module + "engine " + module + "log " + module + "test/sdk/run in TOP"
	plainAll   = strings.Replace(plain, " -short", "", 1)
	under      = "go test -short -timeout 60m -race -skip " + notRaced() + " " + module + "log " + module + "log/disk in TOP"
	goTests    = "go test -short -timeout 60m -race ./test/sdk/go in TOP"
	goSplit    = "partitioned go test -short -timeout 60m -run ^TestScenarios$ ./test/sdk/go in TOP"
	goSplitAll = "partitioned go test -short -timeout 60m -race -run ^TestScenarios$ ./test/sdk/go in TOP"
	wire       = " --scenario " + strings.Join(wireForms, ",")
	jsTests    = []string{
		"npm ci --no-audit --no-fund in TOP/test/sdk/js",
		"LEDGERBUS=TOP/bin/ledgerbus npm test in TOP/test/sdk/js",
	}
	answers = "go test ./test/sim -run ^TestAnswers$ -answers -count 1 -timeout 0 in TOP"
	killed  = "go test ./test/torture -run ^(TestTorture|TestFencedDevice)$ -rounds 10 -count 1 -timeout 60m in TOP"
	seen    = "go test -short -timeout 60m ./test/compatible ./test/format ./test/guide in TOP"
)

func probe(sdk string) string { return scenarios(sdk, " --rounds 0") }
func scenarios(sdk, args string) string {
	return "go run ./test/sdk/run --sdk " + sdk + args + " in TOP"
}

// sdksOfChange are the calls for the SDKs in the scope of a change.
func sdksOfChange() []string {
	return slices.Concat([]string{probe("js")}, jsTests, []string{scenarios("js", wire), probe("python"), scenarios("python", wire), probe("java"), scenarios("java", ""),
		probe("qpid-jms"), scenarios("qpid-jms", ""), probe("qpid-proton"), scenarios("qpid-proton", "")})
}

func TestScopes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args, changed string
		want          []string
	}{
		"before a commit": {want: []string{plain, under, goTests}},
		"everything": {args: "--scope full", want: slices.Concat(
			[]string{plainAll, under, goTests, goSplitAll, probe("js")}, jsTests, []string{scenarios("js", ""), probe("python"), scenarios("python", ""),
				probe("java"), scenarios("java", " --entities both"), probe("qpid-jms"), scenarios("qpid-jms", ""), probe("qpid-proton"), scenarios("qpid-proton", ""),
				"make sim DURATION=30m in TOP", answers, "make mutants in TOP", "make fuzz FUZZ=20000 in TOP", seen, "go test -short -timeout 60m ./test/torture in TOP", "make torture ROUNDS=100 in TOP",
				"make attack ATTACK=10s in TOP", "make temporary in TOP", "make space in TOP", "make large in TOP", "make tables in TOP"})},
		"a change that no long suite is about": {args: "--scope change", changed: "README.md", want: slices.Concat([]string{goSplit}, sdksOfChange(),
			[]string{"make sim DURATION=60s in TOP", "go run ./test/fuzz --count 20000 --since HEAD~1 in TOP", seen, killed})},
		"a change of the log": {args: "--scope change --since v1", changed: "log/reader.go docs/x.md", want: slices.Concat([]string{goSplit}, sdksOfChange(),
			[]string{"make sim DURATION=60s in TOP", answers, "make mutants SUITES=./log in TOP", "go run ./test/fuzz --count 20000 --since v1 in TOP", seen, killed, "make space in TOP"})},
		"a change of planted bugs": {args: "--scope change", changed: "test/mutants/log-format.patch", want: slices.Concat([]string{goSplit}, sdksOfChange(),
			[]string{"make sim DURATION=60s in TOP", "make mutants SUITES=./log in TOP", "go run ./test/fuzz --count 20000 --since HEAD~1 in TOP", seen, killed})},
		"a change of who knows what": {args: "--scope change", want: slices.Concat([]string{goSplit}, sdksOfChange(),
			[]string{"make sim DURATION=60s in TOP", answers, "make mutants SUITES=./test/sim ./engine ./engine/background ./engine/host ./engine/loop ./protocol/servicebus ./log ./index ./index/replay ./engine/ledger in TOP",
				"go run ./test/fuzz --count 20000 in TOP", seen, killed, "make attack ATTACK=10s in TOP", "make temporary in TOP", "make space in TOP", "make large in TOP", "make tables in TOP"})},
	} {
		at := fake(t)
		out, code := at.run([]string{"FAKE_CHANGED=" + c.changed}, strings.Fields(c.args)...)
		if got := at.calls(); code != 0 || !slices.Equal(got, c.want) {
			t.Errorf("%s: exit code %d, calls\n%s\nwant\n%s\n%s", name, code, strings.Join(got, "\n"), strings.Join(c.want, "\n"), out)
		}
		if c.args == "--scope full" && !strings.Contains(out, "(cd test/sdk/js && LEDGERBUS="+at.dir+"/bin/ledgerbus npm test)\njs: 0s\n") {
			t.Errorf("it does not say what it runs, and how long that took:\n%s", out)
		}
	}
}

// An SDK whose runtime is missing is left out, and the next one runs; with CI=true, and when it was
// asked for, it is a failure.
func TestMissingRuntime(t *testing.T) {
	t.Parallel()
	missing := "FAKE_FAILS=--sdk js --rounds 0"
	at := fake(t)
	out, code := at.run([]string{missing}, "--scope", "full")
	if got := at.calls(); code != 0 || !strings.Contains(out, "that fails\njs left out\n") || slices.Contains(got, jsTests[0]) || !slices.Contains(got, scenarios("java", " --entities both")) {
		t.Errorf("exit code %d, calls %q\n%s", code, got, out)
	}
	at = fake(t)
	out, code = at.run([]string{missing, "CI=true"}, "--scope", "change")
	if got := at.calls(); code != 1 || strings.Contains(out, "left out") || !slices.Equal(got, []string{goSplit, probe("js")}) {
		t.Errorf("CI=true: exit code %d, calls %q\n%s", code, got, out)
	}
	at = fake(t)
	if out, code := at.run([]string{missing}, "--scope", "full", "--only", "js"); code != 1 || !slices.Equal(at.calls(), []string{probe("js")}) {
		t.Errorf("asked for: exit code %d, calls %q\n%s", code, at.calls(), out)
	}
}

func TestItStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	for fails, last := range map[string]string{module + "engine ": plainAll, module + "log/disk": under, "./test/sdk/go": goTests, "npm test": jsTests[1]} {
		at := fake(t)
		out, code := at.run([]string{"FAKE_FAILS=" + fails}, "--scope", "full")
		if got := at.calls(); code != 1 || got[len(got)-1] != last || !strings.Contains(out, "exit status 3") {
			t.Errorf("%s: exit code %d, calls %q\n%s", fails, code, got, out)
		}
	}
}

func TestChoiceOfParts(t *testing.T) {
	t.Parallel()
	at := fake(t)
	if out, code := at.run(nil, "--scope", "full", "--only", "python,go"); code != 0 || !slices.Equal(at.calls(), []string{probe("python"), scenarios("python", ""), goTests, goSplitAll}) {
		t.Errorf("exit code %d, calls %q\n%s", code, at.calls(), out)
	}
	at = fake(t)
	for args, says := range map[string]string{
		"--only ruby":                 `no part is called "ruby"`,
		"--scope half":                `--scope is "half"; it is one of commit, change, full`,
		"--only js":                   `js is not in the scope commit`,
		"--scope change --only units": `units is not in the scope change`,
	} {
		if out, code := at.run([]string{"FAKE_CHANGED=README.md"}, strings.Fields(args)...); code != 1 || !strings.Contains(out, says) {
			t.Errorf("%s: exit code %d\n%s", args, code, out)
		}
	}
	out, code := at.run(nil, "--list", "--scope", "full", "--only", "java,go")
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
	out, code := at.run([]string{"FAKE_CC=no-such-compiler"}, "--scope", "full", "--only", "go")
	if got := at.calls(); code != 0 || !slices.Equal(got, []string{strings.Replace(goTests, " -race", "", 1), goSplit}) || !strings.Contains(out, "no C compiler") {
		t.Errorf("exit code %d, calls %q\n%s", code, got, out)
	}
}

// TestRacedIsThere checks that what is tested under the race detector, and what is left out of it,
// still exists: a package or test that was renamed would otherwise be tested differently from then
// on, without a word.
func TestRacedIsThere(t *testing.T) {
	t.Parallel()
	text := map[string]string{}
	for _, below := range raced {
		text[below] = testsOf(t, below)
	}
	for below, names := range alone {
		for _, name := range names {
			for at, text := range text {
				if strings.Contains(text, "func "+name+"(t *testing.T)") != (at == below) {
					t.Errorf("the test %s, which is to be in %s alone, is in %s, or is not there", name, below, at)
				}
			}
		}
	}
}

// testsOf is the text of a package's tests.
func testsOf(t *testing.T, below string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", below, "*_test.go"))
	if err != nil || len(paths) == 0 {
		t.Errorf("%s has no tests (%v)", below, err)
	}
	var text strings.Builder
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(source)
	}
	return text.String()
}

// TestNamesAreThere checks that the files, suites and scenarios that parts are about still exist:
// of one that was renamed nothing would run, without a word.
func TestNamesAreThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../sdk/scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range wireForms {
		if !strings.Contains(string(text), `"id": "`+id+`"`) {
			t.Errorf("there is no scenario %s", id)
		}
	}
	prefixes := slices.Concat(apart, outside)
	for _, s := range planted {
		prefixes = append(append(prefixes, s.suite+"/"), s.concerns...)
	}
	for _, c := range concerns {
		prefixes = append(prefixes, c.files...)
	}
	for _, prefix := range prefixes {
		if files, err := filepath.Glob("../../" + prefix + "*"); err != nil || len(files) == 0 {
			t.Errorf("there is no file %s… (%v)", prefix, err)
		}
	}
}
