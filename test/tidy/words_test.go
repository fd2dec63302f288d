package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// coined are words that were made up here for what the field has a word for, each with that word.
// No name has one of them, alone or as a part of a longer name, and docs/words.md does not either.
var coined = map[string]string{
	"blink":    "name the limit",
	"chore":    "background work",
	"crowded":  "full, throttled, flow-controlled",
	"desk":     "authenticator",
	"flight":   "batch; in flight is said of messages",
	"greedy":   "overuse, over its share",
	"hall":     "session waiters",
	"hasten":   "say what is done early",
	"homeless": "without session, without key",
	"keeping":  "retention",
	"keepings": "retentions",
	"landed":   "committed, answered",
	"lane":     "stream",
	"lend":     "lease, hand over",
	"lent":     "outstanding",
	"newcomer": "anonymous connection",
	"outlet":   "queue",
	"saver":    "checkpointer",
	"shy":      "low priority",
	"strain":   "disk state, fault",
	"strained": "with faults",
	"tenure":   "incarnation",
	"visitor":  "pending connection",
	"weave":    "interleave",
	"weft":     "suspended",
	"tight":    "say what is short",
}

// coinedPhrases are such names of several words.
var coinedPhrases = []string{"handOn", "letGo", "takeBack"}

// phrases are what comments and documents said for what Go and plain English have a form for.
var phrases = map[string]string{
	"tells whether": "reports whether",
	"tell whether":  "report whether",
	"so many bytes": "that many bytes",
	"of so many":    "of that many",
}

// wordsOf is a name cut where its capital letters begin, in small letters.
func wordsOf(name string) (words []string) {
	begin := 0
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper(rune(name[i-1])) || r == '_' {
			words, begin = append(words, strings.ToLower(strings.Trim(name[begin:i], "_"))), i
		}
	}
	return append(words, strings.ToLower(strings.Trim(name[begin:], "_")))
}

// coinedIn says which names that a file declares have a coined word.
func coinedIn(f *source.File) (problems []string) {
	for _, id := range declaredAnywhere(f.Tree) {
		words := wordsOf(id.Name)
		for i, w := range words {
			if w == "flight" && i > 0 && words[i-1] == "in" {
				continue // in flight is what the field says
			}
			said, ok := coined[w]
			if !ok {
				said, ok = coined[strings.TrimSuffix(w, "s")]
			}
			if ok {
				problems = append(problems, fmt.Sprintf("%s: %s: %q is a word of our own; the field says: %s", f.Path, id.Name, w, said))
			}
		}
		if slices.Contains(coinedPhrases, id.Name) {
			problems = append(problems, fmt.Sprintf("%s: %s is a word of our own: say what it does in the field's words", f.Path, id.Name))
		}
	}
	return problems
}

// declaredAnywhere is every name that a file declares, at the top, in a type, or in a function.
func declaredAnywhere(f *ast.File) (names []*ast.Ident) {
	list := func(fields *ast.FieldList) {
		if fields != nil {
			for _, field := range fields.List {
				names = append(names, field.Names...)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
			list(n.Recv)
		case *ast.FuncType:
			list(n.Params)
			list(n.Results)
		case *ast.StructType:
			list(n.Fields)
		case *ast.InterfaceType:
			list(n.Methods)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok.String() == ":=" {
					names = append(names, id)
				}
			}
		}
		return true
	})
	return names
}

// No name of the repository has a word of our own where the field has one.
func TestNoCoinedNames(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		report(t, coinedIn(f))
	}
}

var term = regexp.MustCompile(`^\| ([a-z][^|]*?) \|`)

// docs/words.md has no word twice, and none of those that were given up.
func TestWordsAreSettledOnce(t *testing.T) {
	t.Parallel()
	l := repository(t)
	seen := map[string]bool{}
	for _, line := range l.documents["docs/words.md"].text {
		m := term.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for word := range strings.SplitSeq(m[1], ", ") {
			if seen[word] {
				t.Errorf("docs/words.md says twice what %q is", word)
			}
			if seen[word] = true; coined[word] != "" {
				t.Errorf("docs/words.md has %q, which the field calls: %s", word, coined[word])
			}
		}
	}
	if len(seen) < 30 {
		t.Fatalf("docs/words.md has only %d words", len(seen))
	}
}

// Comments say what Go's readers expect.
func TestPhrases(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		if strings.HasPrefix(f.Path, "test/tidy/") {
			continue
		}
		text := comments(f)
		for _, phrase := range slices.Sorted(maps.Keys(phrases)) {
			if strings.Contains(text, phrase) {
				t.Errorf("%s: a comment says %q: say %q", f.Path, phrase, phrases[phrase])
			}
		}
	}
}

func TestCoinedIn(t *testing.T) {
	t.Parallel()
	f := parse(t, "log/a.go", "package log\n\ntype sessionHall struct{ visitors, inFlight int }\n\nfunc letGo(shyLog, hallway int) {\n\tlane := 1\n\t_ = lane\n}\n")
	got := coinedIn(f)
	want := []string{
		`log/a.go: sessionHall: "hall" is a word of our own; the field says: session waiters`,
		`log/a.go: visitors: "visitors" is a word of our own; the field says: pending connection`,
		`log/a.go: letGo is a word of our own: say what it does in the field's words`,
		`log/a.go: shyLog: "shy" is a word of our own; the field says: low priority`,
		`log/a.go: lane: "lane" is a word of our own; the field says: stream`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
