package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// raisesWord begins the line of a commit's message that says why a number was raised.
const raisesWord = "Raises:"

var (
	raisesLine = regexp.MustCompile(`(?m)\n` + raisesWord + ` *\S`)
	// limitLists are the variables and constants of this package that hold limits.
	limitLists = []string{"maxMethods", "methodCounts", "exportedNames", "maxFunctionLines", "longFunctions", "maxFileLines", "longFiles", "mutexes"}
)

const (
	// the commit that added it is the last one without the duty
	raisesFile = "test/tidy/raises_test.go"
	maxCommits = 100 // older commits were checked when they were new
)

func TestRaises(t *testing.T) {
	t.Parallel()
	problems, missing := history{source.Root}.unexplained()
	if missing != "" {
		t.Skip("the history of the repository cannot be read: ", missing)
	}
	report(t, problems)
}

// history is the commits of a clone.
type history struct{ dir string }

// unexplained says which commits raised a limit without a reason, or why the history does not show
// it.
func (h history) unexplained() (problems []string, missing string) {
	shallow, err := h.git("rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err.Error()
	}
	if strings.TrimSpace(shallow) == "true" {
		return nil, "the clone is shallow"
	}
	added, err := h.git("log", "--diff-filter=A", "--format=%H", "--", ":/"+raisesFile)
	if err != nil || added == "" {
		return nil, fmt.Sprintf("no commit adds %s (%v)", raisesFile, err)
	}
	first := strings.Fields(added)
	commits, err := h.git("log", "--no-merges", "--full-history", "--ancestry-path", "--max-count", strconv.Itoa(maxCommits), "--format=%H%n%B%x00",
		first[len(first)-1]+"..HEAD", "--", ":/test/tidy")
	if err != nil {
		return nil, err.Error()
	}
	for commit := range strings.SplitSeq(commits, "\x00") {
		hash, message, _ := strings.Cut(strings.TrimSpace(commit), "\n")
		if hash == "" || raisesLine.MatchString(message) {
			continue
		}
		subject, _, _ := strings.Cut(message, "\n")
		for _, limit := range raised(h.limits(hash+"^", hash), h.limits(hash, hash)) {
			problems = append(problems, fmt.Sprintf("%.10s %s: raises %s. %s", hash, subject, limit, sayRaised))
		}
	}
	return problems, ""
}

// limits is the limits at a commit in those files of this package that another commit changed, by
// list and name.
func (h history) limits(at, changedBy string) map[string]map[string]int {
	limits := map[string]map[string]int{}
	names, _ := h.git("diff", "--name-only", "--no-renames", changedBy+"^", changedBy, "--", ":/test/tidy")
	for name := range strings.FieldsSeq(names) {
		text, err := h.git("show", at+":"+name)
		if err != nil {
			continue // it is not there yet, or not there any more
		}
		addLimits(limits, text)
	}
	return limits
}

func (h history) git(args ...string) (string, error) {
	settings := []string{"-c", "color.ui=false", "-c", "log.showSignature=false", "-c", "commit.gpgSign=false", "-c", "core.hooksPath=" + os.DevNull}
	cmd := exec.Command("git", append(settings, args...)...)
	cmd.Dir = h.dir
	// A hook's variables would lead to another repository than the one of the directory.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, errs.String())
	}
	return out.String(), nil
}

// addLimits adds the limits of a Go file. A list of names with texts has the number 1 for each.
func addLimits(limits map[string]map[string]int, text string) {
	tree, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return // the commit did not build
	}
	for _, d := range tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if s, ok := s.(*ast.ValueSpec); ok && len(s.Values) == 1 && slices.Contains(limitLists, s.Names[0].Name) {
				limits[s.Names[0].Name] = numbers(s.Values[0])
			}
		}
	}
}

// numbers is the numbers in a literal: a single one without a name, or those of the map in it.
func numbers(x ast.Expr) map[string]int {
	all := map[string]int{}
	number := func(name string, x ast.Expr) {
		if l, ok := x.(*ast.BasicLit); ok && l.Kind == token.INT {
			all[name], _ = strconv.Atoi(l.Value)
		} else if ok {
			all[name] = 1
		}
	}
	number("", x)
	ast.Inspect(x, func(n ast.Node) bool {
		if n, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := n.Key.(*ast.BasicLit); ok {
				name, _ := strconv.Unquote(key.Value)
				number(name, n.Value)
			}
		}
		return true
	})
	return all
}

// raised says which numbers are greater than before. What has a new name in a list, as a package
// that moved, may have the number of what went from that list.
func raised(before, after map[string]map[string]int) (problems []string) {
	for _, list := range slices.Sorted(maps.Keys(after)) {
		var gone []int
		for name, n := range before[list] {
			if _, ok := after[list][name]; !ok {
				gone = append(gone, n)
			}
		}
		slices.Sort(gone)
		for _, name := range slices.Sorted(maps.Keys(after[list])) {
			n := after[list][name]
			was, known := before[list][name]
			if i, _ := slices.BinarySearch(gone, n); !known && i < len(gone) {
				gone = slices.Delete(gone, i, i+1)
			} else if n > was {
				problems = append(problems, strings.TrimSpace(fmt.Sprintf("%s %s", list, name))+fmt.Sprintf(" from %d to %d", was, n))
			}
		}
	}
	return problems
}

// newRepository makes one, with a first commit that adds the file of this test.
func newRepository(t *testing.T) (h history, commit func(message string, files map[string]string)) {
	t.Helper()
	h = history{t.TempDir()}
	git := func(args ...string) {
		t.Helper()
		if _, err := h.git(args...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git: ", err)
	}
	git("init", "--quiet")
	commit = func(message string, files map[string]string) {
		t.Helper()
		for name, text := range files {
			path := filepath.Join(h.dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		git("add", ".")
		git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "-m", message)
	}
	return h, commit
}

// limitsFile is a file of this package with limits.
func limitsFile(function int, exported, mutexes string) map[string]string {
	return map[string]string{"test/tidy/limits_test.go": fmt.Sprintf("package tidy\n\nconst (\n\tmaxFunctionLines = %d // a screen\n)\n\n"+
		"var exportedNames = ratchet{list: \"a\", known: map[string]int{%s}}\n\nvar mutexes = map[string]string{%s}\n\nvar others = map[string]int{\"a\": %[1]d}\n", function, exported, mutexes)}
}

func TestUnexplained(t *testing.T) {
	t.Parallel()
	h, commit := newRepository(t)
	commit("before", limitsFile(1, ``, ``))
	if _, missing := h.unexplained(); missing == "" {
		t.Error("without the commit that began it, nothing can be said")
	}
	commit("begin", limitsFile(70, `"log": 10, "ledger": 5`, `"log.a.mu": "b"`))
	commit("begin", map[string]string{raisesFile: "package tidy\n"})
	commit("lower and move", limitsFile(69, `"log": 9, "engine/ledger": 5`, `"log.b.mu": "b"`))
	commit("explain\n\nBecause of it.\nRaises: log exports Open for tools.\n", limitsFile(69, `"log": 10, "engine/ledger": 5`, `"log.b.mu": "b"`))
	commit("nothing of it", map[string]string{"a.go": "package a\n"})
	if problems, missing := h.unexplained(); len(problems) > 0 || missing != "" {
		t.Errorf("got %q and %q, want nothing", problems, missing)
	}
	commit("Raises: is no reason in a subject", limitsFile(70, `"log": 11, "engine/ledger": 5, "new": 1`, `"log.b.mu": "b", "log.c.mu": "c"`))
	if err := os.WriteFile(filepath.Join(h.dir, "test/tidy/limits_test.go"), []byte("not committed"), 0o600); err != nil {
		t.Fatal(err)
	}
	problems, missing := h.unexplained()
	want := []string{"exportedNames log from 10 to 11", "exportedNames new from 0 to 1", "maxFunctionLines from 69 to 70", "mutexes log.c.mu from 0 to 1"}
	if missing != "" || len(problems) != len(want) {
		t.Fatalf("got %q and %q, want %q", problems, missing, want)
	}
	for i, p := range problems {
		if !strings.Contains(p, ": raises "+want[i]+". ") {
			t.Errorf("got %q, want %q", p, want[i])
		}
	}
}

func TestUnexplainedNeedsHistory(t *testing.T) {
	t.Parallel()
	if _, missing := (history{t.TempDir()}).unexplained(); missing == "" {
		t.Error("a directory without git has a history")
	}
	h, commit := newRepository(t)
	commit("begin", map[string]string{raisesFile: "package tidy\n"})
	commit("end", nil)
	shallow := history{filepath.Join(t.TempDir(), "shallow")}
	if _, err := h.git("clone", "--quiet", "--depth", "1", "file://"+h.dir, shallow.dir); err != nil {
		t.Fatal(err)
	}
	if _, missing := shallow.unexplained(); missing != "the clone is shallow" {
		t.Errorf("got %q of a shallow clone", missing)
	}
}

// The lists that commits are looked through for are there, by these names.
func TestLimitLists(t *testing.T) {
	t.Parallel()
	limits := map[string]map[string]int{}
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		addLimits(limits, string(text))
	}
	if got := slices.Sorted(maps.Keys(limits)); !slices.Equal(got, slices.Sorted(slices.Values(limitLists))) {
		t.Errorf("got %q, want %q", got, limitLists)
	}
	for _, r := range []ratchet{methodCounts, exportedNames} {
		list, _, _ := strings.Cut(r.list, " ")
		if !maps.Equal(limits[list], r.known) {
			t.Errorf("%s is read as %v, want %v", list, limits[list], r.known)
		}
	}
	if len(limits["mutexes"]) != len(mutexes) || limits["maxMethods"][""] != maxMethods {
		t.Errorf("got %v and %v, want %d mutexes and %d", limits["mutexes"], limits["maxMethods"], len(mutexes), maxMethods)
	}
}
