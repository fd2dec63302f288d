package tidy

import (
	"cmp"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// The list of goroutines is the tables of this section of docs/concurrency.md: a row for each place
// that starts one, with file and function in its first column.
const goroutineSection = "## Goroutines"

func TestGoroutines(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(source.Root, "docs/concurrency.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, problems := goroutineRows(string(text))
	report(t, problems)
	var found []string
	for _, f := range product(t) {
		found = append(found, starts(f)...)
	}
	report(t, difference(found, rows,
		"starts a goroutine that docs/concurrency.md does not list. Who waits for its end, and what does it own? Add a row for it under Goroutines.",
		"docs/concurrency.md lists a goroutine that is not started there any more. Take the row away, or correct it."))
}

// starts lists the places of a file that start a goroutine, each by file and function: go
// statements, functions handed to a method Go, as of sync.WaitGroup and errgroup.Group, and
// functions that time and context run in a goroutine of their own.
func starts(f *source.File) (places []string) {
	for name, d := range f.Declarations() {
		ast.Inspect(d, func(n ast.Node) bool {
			if startsOne(n) {
				// var: in a function that a variable is set to
				places = append(places, f.Path+" "+cmp.Or(name, "var"))
			}
			return true
		})
	}
	return places
}

func startsOne(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok {
			return s.Sel.Name == "AfterFunc" || slices.Contains([]string{"Go", "TryGo"}, s.Sel.Name) && len(n.Args) == 1
		}
	}
	return false
}

var goroutinePlace = regexp.MustCompile("^`([^ `]+\\.go [^ `]+)`$")

// goroutineRows is the first column of the tables of the section.
func goroutineRows(document string) (rows, problems []string) {
	_, section, _ := strings.Cut(document, "\n"+goroutineSection+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| started in") {
			continue
		}
		place := goroutinePlace.FindStringSubmatch(strings.TrimSpace(cells[0]))
		if place == nil || len(cells) != 3 || strings.TrimSpace(cells[1]) == "" || strings.TrimSpace(cells[2]) == "" {
			problems = append(problems, "docs/concurrency.md, Goroutines: a row is | `file.go function` | what it is | what it owns, or - |, and not "+strings.TrimSpace(line))
			continue
		}
		rows = append(rows, place[1])
	}
	return rows, problems
}

func TestStarts(t *testing.T) {
	t.Parallel()
	f := parse(t, "a/b.go", `package a

var f = func() { go g() }

func (s *server) serve() {
	go s.accept()
	s.done.Go(func() { go s.tick() })
	time.AfterFunc(d, s.stop)
}

func still() { s.Go(); t.GoOn(g) }
`)
	want := []string{"a/b.go var", "a/b.go server.serve", "a/b.go server.serve", "a/b.go server.serve", "a/b.go server.serve"}
	if got := starts(f); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGoroutineRows(t *testing.T) {
	t.Parallel()
	rows, problems := goroutineRows("# A\n\n" + goroutineSection + "\n\n| started in | goroutine | owns |\n| --- | --- | --- |\n" +
		"| `a/b.go server.serve` | accepts | - |\n| `a/b.go` | no function | - |\n| `a/b.go f` | | - |\n\n## Next\n\n| `c.go f` | elsewhere | - |\n")
	if want := []string{"a/b.go server.serve"}; !slices.Equal(rows, want) || len(problems) != 2 {
		t.Errorf("got %q and %q, want %q and two problems", rows, problems, want)
	}
}
