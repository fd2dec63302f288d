package layering

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/test/source"
)

func TestImportsOfFiles(t *testing.T) {
	t.Parallel()
	var files []*source.File
	for path, text := range map[string]string{
		"log/a.go":       "package log\nimport (\n\t\"os\"\n\t_ \"" + module + "log/event\"\n)\n",
		"log/b_linux.go": "package log\nimport \"os\"\n",
	} {
		f, err := source.Parse(path, text)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	got := imports(files)["log"]
	slices.Sort(got)
	if want := []string{module + "log/event", "os"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCompareOwn(t *testing.T) {
	t.Parallel()
	got := compareOwn(
		map[string][]string{"log": {"log/event", "index"}, "gone": {}},
		map[string][]string{"log": {"os", module + "log/event", module + "engine"}, "new": {}})
	want := []string{
		"log must not import engine",
		"log does not import index any more: take the permission away",
		"package new is not in the picture: enter it in allowed, and in docs/ARCHITECTURE.md",
		"there is no package gone any more: delete it from allowed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestCompareLibraries(t *testing.T) {
	t.Parallel()
	got := compareLibraries(
		map[string][]string{"a.org/wal": {"log", "index"}, "a.org/cmp": nil, "a.org/gone": nil},
		map[string]bool{"a.org/wal": true, "a.org/cmp": true, "a.org/new": true, "a.org/deep": false},
		map[string][]string{"log": {"a.org/wal/inner", "os"}, "engine": {"a.org/wal", "a.org/cmp"}})
	want := []string{
		"engine must not import a.org/cmp; that is for tests",
		"a.org/new is new in go.mod: enter it in libraries, with the packages that import it",
		"engine must not import a.org/wal; that is for log, index",
		"a.org/gone is not required by go.mod any more: delete it from libraries",
		"index does not import a.org/wal any more: delete it there from libraries",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	got := requirements("module a.org/us\n\ngo 1.26.0\n\nrequire a.org/wal v1.2.1\n\nrequire (\n\ta.org/deep v1.0.0 // indirect\n)\n")
	if want := map[string]bool{"a.org/wal": true, "a.org/deep": false}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v (-want +got):\n%s", got, want, cmp.Diff(want, got))
	}
}
