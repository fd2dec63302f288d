// Package layering keeps the directions of the project's imports: the picture in docs/ARCHITECTURE.md is this test.
package layering

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ledgerbus/ledgerbus/"

// allowed lists what each package may import of ours (tests apart). A package that is not here may not exist.
var allowed = map[string][]string{
	"internal/image":         {},
	"internal/mutant":        {},
	"internal/private":       {},
	"log/event":              {},
	"log":                    {"log/event", "internal/mutant"},
	"index":                  {"log/event", "internal/mutant"},
	"engine/filter":          {"log/event"},
	"engine":                 {"engine/filter", "index", "log", "log/event", "internal/mutant"},
	"engine/host":            {"engine", "engine/filter", "index", "log", "log/event", "internal/mutant"},
	"protocol/amqp":          {},
	"protocol/access":        {"log/event"},
	"protocol/servicebus":    {"protocol/amqp", "protocol/access", "engine", "engine/filter", "log/event"},
	"protocol/atom/document": {"log/event"},
	"protocol/atom":          {"protocol/atom/document", "protocol/access", "engine", "log/event"},
	"protocol/listen":        {"internal/private"},
	"tools":                  {"index", "log", "log/event"},
	"cmd/settings":           {"engine", "engine/host", "engine/filter", "log/event", "protocol/servicebus"},
	"tools/client":           {"protocol/servicebus", "protocol/amqp"},
	"tools/client/admin":     {"tools/client", "protocol/atom/document", "log/event"},
	"cmd/broker":             {"cmd/settings", "engine", "engine/host", "log", "log/event", "protocol/access", "protocol/atom", "protocol/servicebus", "protocol/listen", "internal/private"},
	"tools/bench":            {"tools/client", "tools/bench/floor"},
	"tools/bench/floor":      {"protocol/amqp"},
	"cmd/ledgerbus":          {"cmd/settings", "cmd/broker", "tools/client", "tools/client/admin", "protocol/atom/document", "tools", "tools/bench", "engine", "engine/host", "log", "log/event", "protocol/servicebus"},
}

// owners lists libraries that only one package may import.
var owners = map[string]string{
	"github.com/tidwall/wal":                 "log",
	"github.com/klauspost/compress/zstd":     "log",
	"github.com/gofrs/flock":                 "log",
	"github.com/RoaringBitmap/roaring":       "index",
	"github.com/coder/websocket":             "protocol/listen",
	"github.com/coreos/go-oidc":              "protocol/access",
	"github.com/go-jose/go-jose":             "protocol/access",
	"github.com/google/go-containerregistry": "internal/image",
}

// Rules and state see no clock, no randomness, no files, no network (reliability.md 3.1). SM-363: so a replay, which is index
// applying what log/event decodes, sees none.
var pure = map[string][]string{
	"log/event":     {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"index":         {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"engine":        {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"engine/filter": {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"protocol/amqp": {"os", "net"},
}

// clocks are what package time has beside the types and arithmetic that everybody may use.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

// SM-363: what must see no clock may import package time, for its types, but calls nothing in it that asks for the time. Nor does it
// start a goroutine.
func TestNoClock(t *testing.T) {
	t.Parallel()
	for name := range pure {
		files, err := filepath.Glob("../../" + name + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", name, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s: a goroutine", set.Position(g.Pos()))
				}
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clocks, s.Sel.Name) {
					if of, ok := s.X.(*ast.Ident); ok && of.Name == "time" {
						t.Errorf("%s uses time.%s", file, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "test/") {
			continue // may see everything
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s is not in the picture", name)
		}
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, module); ok && !slices.Contains(may, ours) {
				t.Errorf("%s must not import %s", name, ours)
			}
			if imp == "log" {
				t.Errorf("%s imports the standard log; diagnostics are log/slog", name)
			}
			for lib, owner := range owners {
				if strings.HasPrefix(imp, lib) && name != owner {
					t.Errorf("%s must not import %s; %s does", name, imp, owner)
				}
			}
			if slices.Contains(pure[name], imp) {
				t.Errorf("%s must not import %s", name, imp)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
