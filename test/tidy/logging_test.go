package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// logCalls are the methods of a logger, each with the number of arguments in front of the
// attributes.
var logCalls = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "Log": 3, "With": 0, "DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2}

// attributes are the functions of log/slog that make one attribute.
var attributes = []string{"Any", "Bool", "Duration", "Float64", "Group", "Int", "Int64", "String", "Time", "Uint64"}

var logKey = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// badLogKeys lists the keys of log attributes in a file that are not snake_case, and errors that
// are not called "error".
func badLogKeys(f *source.File) (problems []string) {
	complain := func(key string, at token.Pos) {
		if !logKey.MatchString(key) {
			problems = append(problems, fmt.Sprintf("%s:%d: the log key %q is not snake_case", f.Path, f.Line(at), key))
		}
		if key == "err" {
			problems = append(problems, fmt.Sprintf(`%s:%d: the log key of an error is "error"`, f.Path, f.Line(at)))
		}
	}
	ast.Inspect(f.Tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := fun.X.(*ast.Ident); ok && of.Name == "slog" && slices.Contains(attributes, fun.Sel.Name) && len(call.Args) > 0 {
			if key, ok := text(call.Args[0]); ok {
				complain(key, call.Args[0].Pos())
			}
			return true
		}
		first, ok := logCalls[fun.Sel.Name]
		if !ok || !isLogger(fun.X) || len(call.Args) < first {
			return true
		}
		for i := first; i < len(call.Args); i++ {
			if key, ok := text(call.Args[i]); ok {
				complain(key, call.Args[i].Pos())
				i++ // its value
			}
		}
		return true
	})
	return problems
}

// isLogger reports whether an expression is called a logger.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "logger") || x.Name == "slog"
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "logger")
	case *ast.CallExpr:
		return isLogger(x.Fun)
	}
	return false
}

// text returns the value of a string literal.
func text(x ast.Expr) (string, bool) {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// Keys of log attributes are snake_case, and an error is always "error".
func TestLogKeys(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		report(t, badLogKeys(f))
	}
}

// questions lists the error texts of a file that ask, or say "failed to".
func questions(f *source.File) (problems []string) {
	ast.Inspect(f.Tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || fun.Sel.Name != "Errorf" && fun.Sel.Name != "New" {
			return true
		}
		s, ok := text(call.Args[0])
		if ok && (strings.Contains(s, "? ") || strings.HasSuffix(s, "?") || strings.Contains(s, "failed to")) {
			problems = append(problems, fmt.Sprintf("%s:%d: %q is not a statement of what is wrong", f.Path, f.Line(call.Pos()), s))
		}
		return true
	})
	return problems
}

// Error texts are statements.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		report(t, questions(f))
	}
}

func TestBadLogKeys(t *testing.T) {
	t.Parallel()
	f := parse(t, "log/a.go", `package log

func f() {
	s.logger.Warn("a text", "partition", 1, "err", err)
	s.Logger().Info("another", "up to", 1, "upTo", 2, "up_to", "a value")
	logger.Log(ctx, level, "text", slog.Int("two words", 1))
	other.Info("a text", "not a key", 1)
	_ = fmt.Errorf("about what? %s", x)
	_ = errors.New("failed to open")
}
`)
	if got, want := badLogKeys(f), []string{
		`log/a.go:4: the log key of an error is "error"`,
		`log/a.go:5: the log key "up to" is not snake_case`,
		`log/a.go:5: the log key "upTo" is not snake_case`,
		`log/a.go:6: the log key "two words" is not snake_case`,
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := questions(f), []string{
		`log/a.go:8: "about what? %s" is not a statement of what is wrong`,
		`log/a.go:9: "failed to open" is not a statement of what is wrong`,
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
