package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// maxColumns is the width of comments and Markdown. A tab counts as four columns.
const maxColumns = 100

// columns counts the columns that a line takes.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

// wideComments lists the comment lines of a Go file that are too wide. Directives and preformatted
// text, such as tables and code, keep their lines.
func wideComments(path, text string, lines func(yield func(line int))) (problems []string) {
	all := strings.Split(text, "\n")
	lines(func(n int) {
		line := all[n-1]
		comment := line[strings.LastIndex(line, "//"):]
		if columns(line) <= maxColumns || !strings.HasPrefix(comment, "// ") || strings.HasPrefix(comment, "//  ") {
			return
		}
		if !strings.Contains(strings.TrimSpace(comment[2:]), " ") {
			return // one word, such as an address
		}
		problems = append(problems, fmt.Sprintf("%s:%d: a comment ends at column %d; wrap it at %d", path, n, columns(line), maxColumns))
	})
	return problems
}

// commentLines calls yield with the number of each line that ends with a // comment.
func commentLines(f *source.File) func(yield func(line int)) {
	return func(yield func(line int)) {
		for _, group := range f.Tree.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "// ") {
					yield(f.Line(c.Pos()))
				}
			}
		}
	}
}

// wideMarkdown lists the lines of a document that are too wide. Headings and rows of tables cannot
// be wrapped, nor can a line whose first words are one long code span or address.
func wideMarkdown(path, text string) (problems []string) {
	fenced := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		start := strings.TrimSpace(line)
		if strings.HasPrefix(start, "```") {
			fenced = !fenced
		}
		if fenced || columns(line) <= maxColumns || strings.HasPrefix(start, "|") || strings.HasPrefix(start, "#") || strings.HasPrefix(line, "    ") {
			continue
		}
		if words := unbroken(start); len(words) == 1 {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s:%d: the line ends at column %d; wrap it at %d", path, n, columns(line), maxColumns))
	}
	return problems
}

// unbroken splits a line at its spaces, but not within code spans.
func unbroken(line string) []string {
	code := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '`' {
			code = !code
		}
		return r == ' ' && !code
	})
}

// Comments and Markdown are wrapped.
func TestWrapped(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		text, err := os.ReadFile(filepath.Join(source.Root, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		report(t, wideComments(f.Path, string(text), commentLines(f)))
	}
	paths, err := source.Paths()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if filepath.Ext(p) != ".md" || source.Testdata(p) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(source.Root, p))
		if err != nil {
			t.Fatal(err)
		}
		report(t, wideMarkdown(p, string(text)))
	}
}

func TestWide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 25)
	text := "package a\n\n// " + long + "\n//\t" + long + "\n// " + strings.Repeat("w", 120) + "\n//go:generate " + long + "\nvar a = 1 // " + long + "\n"
	f := parse(t, "a/b.go", text)
	if got, want := wideComments("a/b.go", text, commentLines(f)), []string{
		"a/b.go:3: a comment ends at column 128; wrap it at 100",
		"a/b.go:7: a comment ends at column 138; wrap it at 100",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	text = long + "\n| " + long + "|\n# " + long + "\n```\n" + long + "\n```\n- `" + long + "`\n`" + long + "`\n"
	if got, want := wideMarkdown("a.md", text), []string{
		"a.md:1: the line ends at column 125; wrap it at 100",
		"a.md:7: the line ends at column 129; wrap it at 100",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
