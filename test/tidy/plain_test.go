package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// unclear are expressions that readers stumble over in README, guide, help, error texts and log
// messages, each with what to write. They are regular expressions of whole words.
var unclear = map[string]string{
	`nobody|no one|somebody|someone|anybody|anyone|everybody|everyone|whoever`: "name the actor: the caller, the operator, any client, no receiver",
	`but for`:                             "except, without",
	`(is|are|was|were|be) to be`:          "must be, will be",
	`(is|are) due to be`:                  "will be",
	`so many|so much`:                     "that many, that much",
	`(give|gives|gave|given|giving) back`: "free, return",
	`(is|are|was|were) over`:              "has ended, is settled",
	`stands? (in|for|there|behind)`:       "is in, means",
	`of which`:                            "start a new sentence",
	`those (that|who|which)`:              "name the thing",
	`for good`:                            "permanently",
	`anew`:                                "again",
	`just now`:                            "at the moment",
	`likewise`:                            "repeat the subject",
	`(of|by) (its|their) own`:             "separate, by itself",
	`beside`:                              "next to, besides, while",
	`too[.;]`:                             "also, in front of the verb",
	`what (is|was|has|had|have) (left|over|missing|kept|due|new|meant|there)`: "name the thing",
}

var unclearWords = compileUnclear()

func compileUnclear() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for words := range unclear {
		end := `\b`
		if strings.HasSuffix(words, "]") {
			end = ""
		}
		all[words] = regexp.MustCompile(`(?i)\b(?:` + words + `)` + end)
	}
	return all
}

// unclearIn lists the unclear expressions of a text.
func unclearIn(where, text string) (problems []string) {
	for _, words := range slices.Sorted(maps.Keys(unclearWords)) {
		if found := unclearWords[words].FindString(text); found != "" {
			problems = append(problems, fmt.Sprintf("%s: %q: write %s", where, found, unclear[words]))
		}
	}
	return problems
}

// prose is a document as one text, without code.
func prose(d document) string {
	return regexp.MustCompile("`[^`]*`").ReplaceAllString(strings.Join(d.text, "\n"), "`code`")
}

// README and guide are plain.
func TestPlainGuide(t *testing.T) {
	t.Parallel()
	for p, d := range repository(t).documents {
		if p == "README.md" || path.Dir(p) == "docs/guide" {
			for paragraph := range strings.SplitSeq(prose(d), "\n\n") {
				line := strings.Join(strings.Fields(paragraph), " ")
				report(t, unclearIn(fmt.Sprintf("%s: %.60s…", p, line), line))
			}
		}
	}
}

// sentences lists the string literals of a file that have several words: help, errors, log messages
// and answers.
func sentences(f *source.File) map[string]string {
	all := map[string]string{}
	ast.Inspect(f.Tree, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(strings.TrimSpace(text), " ") {
			all[fmt.Sprintf("%s:%d", f.Path, f.Line(lit.Pos()))] = strings.Join(strings.Fields(text), " ")
		}
		return true
	})
	return all
}

// Texts of the product are plain: help, errors, log messages and answers.
func TestPlainTexts(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		for where, text := range sentences(f) {
			report(t, unclearIn(where, text))
		}
	}
}

func TestUnclearIn(t *testing.T) {
	t.Parallel()
	f := parse(t, "log/a.go", "package log\n\nvar errA = errors.New(\"log: Nobody reads\\nfile %d\")\n\nconst anybodys = \"anybody's\"\n")
	var got []string
	for where, text := range sentences(f) {
		got = append(got, unclearIn(where, text)...)
	}
	for _, text := range []string{"It is to be sent too.", "a tool, too much so", "whatsoever and overall", "all but forgotten"} {
		got = append(got, unclearIn("guide", text)...)
	}
	want := []string{
		`log/a.go:3: "Nobody": write name the actor: the caller, the operator, any client, no receiver`,
		`guide: "is to be": write must be, will be`,
		`guide: "too.": write also, in front of the verb`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
