package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// participles are bare verb forms that no type is named by. A type is a noun, or a noun and its
// role: historyPolicies, unreadBody (docs/words.md).
var participles = []string{
	"accepting", "answering", "asked", "asking", "attaching", "basing", "beginning", "begun", "bounded",
	"cancelling", "carried", "cataloguing", "compiled", "copying", "counted", "decoding", "delivered",
	"dropping", "encoded", "encoding", "encrypted", "ending", "everything", "explaining", "failed",
	"failing", "followed", "following", "gathering", "given", "happening", "held", "identified",
	"importing", "incoming", "kept", "known", "lasting", "listing", "looking", "marked", "missing",
	"moving", "named", "numbered", "ordered", "outgoing", "passed", "peeking", "planned", "published",
	"publishing", "queued", "quoted", "reading", "receiving", "remembered", "removed", "removing",
	"renewing", "repeated", "replayed", "returned", "rotten", "running", "said", "scheduled",
	"scrubbing", "sealing", "seen", "sending", "settling", "shared", "staged", "staging", "stored",
	"summed", "taking", "telling", "then", "tracing", "tracking", "unbroken", "unfinished",
	"unsettled", "verified", "waiting", "walking", "wanted", "watching", "writing",
}

// namedByVerbs lists the types of a file that are named by a bare verb form.
func namedByVerbs(f *source.File) (problems []string) {
	ast.Inspect(f.Tree, func(n ast.Node) bool {
		if t, ok := n.(*ast.TypeSpec); ok && slices.Contains(participles, t.Name.Name) {
			problems = append(problems, fmt.Sprintf("%s: the type %s is named by a verb form; name the thing and its role", f.Path, t.Name.Name))
		}
		return true
	})
	return problems
}

// Types of the product are named by nouns.
func TestTypesAreNouns(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		report(t, namedByVerbs(f))
	}
}

func TestNamedByVerbs(t *testing.T) {
	t.Parallel()
	f := parse(t, "log/a.go", "package log\n\ntype basing struct{}\n\ntype seal struct{}\n\nfunc f() {\n\ttype kept int\n}\n")
	want := []string{
		"log/a.go: the type basing is named by a verb form; name the thing and its role",
		"log/a.go: the type kept is named by a verb form; name the thing and its role",
	}
	if got := namedByVerbs(f); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
