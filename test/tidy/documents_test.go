package tidy

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// elsewhere are the names in backticks that look like a file of the repository and are none.
var elsewhere = map[string]string{
	"Config.json":                     "the emulator's configuration",
	"namespace.json":                  "in a data directory",
	"cut/":                            "in a data directory",
	"data/tls/ca.pem":                 "in a data directory",
	"mirror.json":                     "in a mirror",
	"slice.json":                      "in a slice of a data directory",
	"export.json":                     "in an export",
	"@1/4096":                         "a place in a log",
	"DIR/00":                          "of a mirror",
	"DIR/01":                          "of a mirror",
	"bin/ledgerbench":                 "made by make bench",
	"dist/":                           "made by make image",
	"dist/oci":                        "made by make image",
	"tidwall/gjson":                   "a library",
	"encoding/json":                   "a package of Go",
	"tidwall/wal":                     "a library",
	"klauspost/compress":              "a library",
	"google/go-containerregistry":     "a library",
	"azure/servicebus":                "a module of testcontainers",
	"@testcontainers/azureservicebus": "a module of testcontainers",
	"n/a":                             "not available",
	"application/x-ndjson":            "a media type",
	"application/x-tar":               "a media type",
}

var (
	backticks = regexp.MustCompile("`([^`]+)`")
	maybeFile = regexp.MustCompile(`^[\w.@-]*[\w@-](/[\w.@-]+)*/?$`)
	// of a name without a slash that is looked for
	endings = []string{".go", ".md", ".json", ".yaml"}
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	outside = regexp.MustCompile(`^[a-z]+:`) // https:, mailto:
	heading = regexp.MustCompile(`^#{1,6} +(.*?)[ #]*$`)
)

// document is a text of the repository.
type document struct {
	path string   // from the root
	text []string // its lines without fenced code
}

func newDocument(path, text string) document {
	d := document{path: path}
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			d.text = append(d.text, strings.TrimRight(line, "\r\n"))
		}
	}
	return d
}

// anchors are the names that links to the document's headings have, as forges make them: small
// letters, hyphens for spaces, and a number for the second of the same.
func (d document) anchors() []string {
	var all []string
	seen := map[string]int{}
	for _, line := range d.text {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		seen[anchor]++
		if n := seen[anchor]; n > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, n-1)
		}
		all = append(all, anchor)
	}
	return all
}

// library is what documents may name: the files and folders of the repository.
type library struct {
	paths     map[string]bool // of files and of the folders above them
	ends      map[string]bool // of the paths: of log/event "log/event" and "event"
	documents map[string]document
}

func newLibrary(paths []string, documents ...document) library {
	l := library{paths: map[string]bool{".": true}, ends: map[string]bool{}, documents: map[string]document{}}
	for _, p := range paths {
		for ; p != "." && !l.paths[p]; p = path.Dir(p) {
			l.paths[p] = true
			for end, more := p, true; more; _, end, more = strings.Cut(end, "/") {
				l.ends[end] = true
			}
		}
	}
	for _, d := range documents {
		l.documents[d.path] = d
	}
	return l
}

// has reports whether a name that stands in a document is of a file or folder: from the document,
// from the root, or the end of a path, as "filter/set.go" is.
func (l library) has(from, name string) bool {
	name = path.Clean(name)
	return l.ends[name] || l.paths[path.Join(path.Dir(from), name)]
}

// deadLinks says which links of a document lead nowhere. What is outside the repository is not
// asked.
func (l library) deadLinks(d document) (problems []string) {
	for _, line := range d.text {
		for _, m := range link.FindAllStringSubmatch(backticks.ReplaceAllString(line, ""), -1) {
			if outside.MatchString(m[1]) {
				continue
			}
			file, anchor, hasAnchor := strings.Cut(m[1], "#")
			target := d.path
			if file != "" {
				target = path.Join(path.Dir(d.path), file)
			}
			if !l.paths[target] {
				problems = append(problems, fmt.Sprintf("%s: the link to %s leads nowhere: there is no %s", d.path, m[1], target))
			} else if hasAnchor && !slices.Contains(l.documents[target].anchors(), anchor) {
				problems = append(problems, fmt.Sprintf("%s: the link to %s leads to no heading: %s has none whose anchor is %s", d.path, m[1], target, anchor))
			}
		}
	}
	return problems
}

// namedFiles lists what a document has in backticks that looks like a file or folder. Left out are
// names that begin with a dot or a slash, which are not of the repository, and those with a dot
// before their first slash, which are of hosts and modules.
func namedFiles(d document) (names []string) {
	for _, line := range d.text {
		for _, m := range backticks.FindAllStringSubmatch(line, -1) {
			name := m[1]
			first, _, slash := strings.Cut(name, "/")
			host := slash && strings.Contains(first, ".")
			if maybeFile.MatchString(name) && !host && (slash || slices.Contains(endings, path.Ext(name))) {
				names = append(names, name)
			}
		}
	}
	return names
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	l := repository(t)
	unused := maps.Clone(elsewhere)
	for _, p := range slices.Sorted(maps.Keys(l.documents)) {
		d := l.documents[p]
		report(t, l.deadLinks(d))
		if path.Dir(p) == "docs/rules" {
			// the rules name files of clients, of the emulator, and those that are still to be
			continue
		}
		for _, name := range namedFiles(d) {
			if _, ok := elsewhere[name]; ok {
				delete(unused, name)
			} else if !l.has(p, name) {
				t.Errorf("%s: there is no %s. Was it renamed? If it is no file of the repository, add it to elsewhere in test/tidy/documents_test.go", p, name)
			}
		}
	}
	for name := range unused {
		t.Errorf("%s: no document names it any more. Delete it from elsewhere in test/tidy/documents_test.go", name)
	}
}

// repository is the files of the repository, and its documents.
func repository(t *testing.T) library {
	t.Helper()
	paths, err := source.Paths()
	if err != nil {
		t.Fatal(err)
	}
	var documents []document
	for _, p := range paths {
		if path.Ext(p) != ".md" || source.Testdata(p) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(source.Root, p))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, newDocument(p, string(text)))
	}
	return newLibrary(paths, documents...)
}

func TestDeadLinks(t *testing.T) {
	t.Parallel()
	guide := newDocument("docs/guide.md", "# The *guide*\n\n## 3.1 A `go` test\n## Same\n## Same\n```\n# code\n[x](gone.md)\n```\n"+
		"[a](#the-guide) [b](#31-a-go-test) [c](#same-1) [d](../log) [e](../log/a.go) [f](https://a.org/gone.md) `[g](gone.md)`\n"+
		"[h](gone.md) [i](#same-2) [j](#code)\n")
	l := newLibrary([]string{"docs/guide.md", "log/a.go"}, guide)
	got := l.deadLinks(guide)
	want := []string{
		"docs/guide.md: the link to gone.md leads nowhere: there is no docs/gone.md",
		"docs/guide.md: the link to #same-2 leads to no heading: docs/guide.md has none whose anchor is same-2",
		"docs/guide.md: the link to #code leads to no heading: docs/guide.md has none whose anchor is code",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestNamedFiles(t *testing.T) {
	t.Parallel()
	d := newDocument("docs/guide.md", "`log/a.go` `a.go` `log/` `gone.go` `go test ./log` `a.org/b` `/health` `Apply` `x.Apply()` `./data` `*.go`\n")
	names := namedFiles(d)
	if want := []string{"log/a.go", "a.go", "log/", "gone.go"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	l := newLibrary([]string{"protocol/log/a.go"}, d)
	missing := slices.DeleteFunc(names, func(name string) bool { return l.has(d.path, name) })
	if want := []string{"gone.go"}; !slices.Equal(missing, want) {
		t.Errorf("missing are %q, want %q", missing, want)
	}
}

// The README is for whoever sees the project for the first time: two screens. What is longer is a
// page of docs/guide.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const most = 150
	if n := strings.Count(string(text), "\n"); n > most {
		t.Errorf("README.md has %d lines, and %d are the limit: move what only some readers need to docs/guide", n, most)
	}
}
