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

// programVariable makes the test binary the program itself, with the bugs of the fixture.
const programVariable = "MUTANTS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		bugs = fixtureBugs
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Every patch applies to the product as it is, and the patches have the switches of the table.
func TestPatches(t *testing.T) {
	t.Chdir("../..")
	if _, err := plant(t.Context(), t.TempDir()); err != nil {
		t.Error(err)
	}
	patches, err := patchFiles()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, patch := range patches {
		text, err := os.ReadFile(patch)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if err := unlike(bugs, switches(texts)); err != nil {
		t.Error(err)
	}
}

// Every finder names a test that there is, and every bug has a finder and an id of its own.
func TestFinders(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, b := range bugs {
		if ids[b.id] || len(b.finders) == 0 {
			t.Errorf("%s is listed twice, or nothing finds it", b.id)
		}
		ids[b.id] = true
		for _, f := range b.finders {
			name, _, _ := strings.Cut(f.test, "/")
			if pattern := regexp.MustCompile("^" + name + "$"); !slices.ContainsFunc(testsOf(t, f.suite), pattern.MatchString) {
				t.Errorf("%s is to be found by %s of %s, which has no such test", b.id, f.test, f.suite)
			}
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// testsOf lists the tests of a package.
func testsOf(t *testing.T, suite string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", suite, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// fixtureBugs are the bugs of the fixture: a test finds the first, and none the second.
var fixtureBugs = []bug{of("A1", "a sum is a difference", in("a", "TestSum")), of("A2", "nothing goes wrong", in("a", "TestSum"))}

const (
	plantedFile = "package a\n\nimport \"os\"\n\nfunc planted(bug string) bool { return os.Getenv(\"LEDGERBUS_MUTANT\") == bug }\n"
	withBugs    = `package a

// Sum adds.
func Sum(x, y int) int {
	if planted("A1") {
		return x - y
	}
	if planted("A2") {
		return y + x
	}
	return x + y
}
`
)

// workshop is a repository in which the program runs.
type workshop struct {
	t   *testing.T
	dir string
}

// newWorkshop makes one with a package, all of it staged.
func newWorkshop(t *testing.T) workshop {
	t.Helper()
	s := workshop{t, t.TempDir()}
	s.write("go.mod", "module fixture\n\ngo 1.26\n")
	s.write("a/a.go", "package a\n\n// Sum adds.\nfunc Sum(x, y int) int {\n\treturn x + y\n}\n")
	s.write("a/a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif n := Sum(1, 2); n != 3 {\n\t\tt.Error(n)\n\t}\n}\n")
	s.write("test/mutants/bugs.go", "package main\n")
	s.git("init", "--quiet")
	s.git("add", ".")
	return s
}

func (s workshop) write(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

func (s workshop) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s workshop) git(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "git", args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// program runs the program, which has to end with an exit code and to say some texts.
func (s workshop) program(code int, args []string, texts ...string) {
	s.t.Helper()
	binary, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), binary, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), programVariable+"=1")
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("mutants %q: exit code %d, want %d\n%s", args, got, code, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			s.t.Errorf("mutants %q: %q is missing in\n%s", args, text, out)
		}
	}
}

// plant makes the patch as a contributor does.
func (s workshop) plant() {
	s.t.Helper()
	s.program(0, []string{"apply"})
	s.write("a/a.go", withBugs)
	s.write("a/planted.go", plantedFile)
	s.program(0, []string{"save"}, "test/mutants/a.patch")
}

// What is saved is in the patch, and no more in the product; the bug of it is found, and what no
// test finds is a failure.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	s.plant()
	if got := s.git("status", "--porcelain", "--untracked-files=all", "a"); strings.Contains(got, "planted.go") || strings.Contains(s.read("a/a.go"), "planted") {
		t.Errorf("the bugs are still in the product:\n%s", got)
	}
	s.program(0, []string{"--only", "A1", "./a"}, "ok A1: ./a TestSum", "ok nothing: ./a TestSum", "2 trials")
	s.program(1, nil, "ok A1: ./a TestSum", "FAILED A2: ./a TestSum: the bug is planted, and the test passes", "1 of 3 trials failed")
	s.program(1, []string{"./b"}, "no test of such a package finds such a bug")
}

// A patch that the product has left behind names the file and the hunk; apply leaves that hunk to
// be edited by hand, and save makes the patch anew.
func TestPatchNoLongerApplies(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	s.plant()
	s.write("a/a.go", "package a\n\n// Sum adds.\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n")
	s.program(1, []string{"apply"}, "stage or commit first", "a/a.go")
	s.git("add", ".")
	s.program(1, nil, "patch failed: a/a.go:2", "Rejected hunk #1", "To mend a patch")
	s.program(1, []string{"apply"}, "patch failed: a/a.go:2", "*.rej")
	s.program(1, []string{"save"}, "a/a.go.rej is still there")
	if err := os.Remove(filepath.Join(s.dir, "a/a.go.rej")); err != nil {
		t.Fatal(err)
	}
	s.write("a/a.go", strings.NewReplacer("x, y", "a, b", "x - y", "a - b", "y + x", "b + a", "x + y", "a + b").Replace(withBugs))
	s.program(0, []string{"save"}, "test/mutants/a.patch")
	s.program(0, []string{"--only", "A1"}, "ok A1")
}

// Nothing is saved where a bug would be in no patch any more, or one in no table.
func TestSaveLosesNoBug(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	s.plant()
	patch := s.read("test/mutants/a.patch")
	s.program(1, []string{"save"}, "nothing has changed")
	s.write("a/a.go", strings.ReplaceAll(withBugs, "A2", "A3"))
	s.program(1, []string{"save"}, "A2 of test/mutants/bugs.go is in no patch", `a patch has planted("A3")`)
	if s.read("test/mutants/a.patch") != patch {
		t.Error("the patch has changed")
	}
}
