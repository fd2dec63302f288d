// Package layering keeps the directions of the project's imports: the picture in
// docs/ARCHITECTURE.md is this test. Its lists are exact: a permission that nobody uses is an
// error, too.
package layering

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

const module = "github.com/ledgerbus/ledgerbus/"

// allowed lists what each package imports of ours (tests apart), exactly. A package that is not
// here may not exist.
var allowed = map[string][]string{
	"internal/budget":        {},
	"internal/fifo":          {},
	"internal/image":         {},
	"internal/jsontext":      {},
	"internal/private":       {},
	"internal/program":       {"internal/quantity"},
	"internal/quantity":      {},
	"log/event":              {"internal/quantity"},
	"log/event/internal/gen": {},
	"log/format":             {"log/event"},
	"log/sealed":             {"log/event", "log/format"},
	"log/disk":               {},
	"log":                    {"log/format", "log/disk", "log/sealed", "log/event"},
	"index":                  {"log/event"},
	"index/replay":           {"index", "log", "log/event"},
	"engine/filter":          {"log/event"},
	"engine":                 {"engine/filter", "index", "log", "log/event"},
	// only engine/background and engine/host import it: decision 89
	"engine/loop":            {"engine", "engine/filter", "index", "index/replay", "internal/fifo", "log", "log/event"},
	"engine/background":      {"engine", "engine/filter", "engine/loop", "index", "index/replay", "internal/fifo", "log", "log/event"},
	"engine/present":         {"engine/filter", "engine/ledger/address", "engine/present/rows", "index", "log/event"},
	"engine/present/rows":    {},
	"engine/host":            {"engine", "engine/background", "engine/filter", "engine/loop", "engine/present", "index", "index/replay", "log", "log/event"},
	"protocol/amqp":          {},
	"protocol/access":        {"log/event"},
	"protocol/message":       {"protocol/amqp", "engine", "engine/filter", "log/event"},
	"protocol/servicebus":    {"protocol/amqp", "protocol/message", "protocol/access", "engine", "engine/filter", "log/event", "internal/budget"},
	"protocol/atom/document": {"log/event"},
	"protocol/caller":        {"protocol/access", "engine", "log/event"},
	"protocol/atom":          {"protocol/atom/document", "protocol/caller", "protocol/access", "engine", "log/event"},
	"protocol/ledger/wire":   {"internal/jsontext"},
	"protocol/ledger":        {"protocol/ledger/wire", "protocol/caller", "protocol/access", "engine", "engine/present", "engine/present/rows", "internal/budget", "engine/ledger", "engine/ledger/address", "log", "log/event", "log/format"},
	"protocol/listen":        {"internal/private"},
	"engine/ledger/address":  {"log/event"},
	"engine/ledger/print":    {"log/event", "internal/jsontext"},
	"engine/ledger":          {"engine/ledger/address", "engine/ledger/print", "engine/filter", "engine/present/rows", "index", "index/replay", "internal/quantity", "log", "log/event", "log/format"},
	"tools":                  {"index/replay", "engine/ledger", "engine/ledger/print", "log", "log/event"},
	"tools/doctor":           {"tools", "log", "log/disk"},
	"tools/excerpt":          {"index", "index/replay", "engine/ledger", "log", "log/event", "tools"},
	"tools/export":           {"engine/ledger", "engine/ledger/print", "log", "log/event"},
	"cmd/settings":           {"engine", "engine/host", "engine/filter", "internal/jsontext", "internal/quantity", "log/event"},
	"tools/mirror":           {"log/disk"},
	"tools/offline":          {"engine/present", "index", "index/replay", "log", "log/event"},
	"tools/output":           {"engine/ledger/print", "internal/jsontext", "internal/program"},
	"tools/client":           {"log/event", "protocol/amqp"},
	"tools/client/admin":     {"engine/present/rows", "tools/client", "protocol/atom/document", "protocol/ledger/wire", "log/event"},
	"cmd/broker":             {"cmd/settings", "engine", "engine/host", "engine/present", "engine/present/rows", "internal/program", "log", "log/event", "protocol/access", "protocol/caller", "protocol/atom", "protocol/ledger", "protocol/message", "protocol/servicebus", "protocol/listen", "internal/budget", "internal/private"},
	"tools/bench":            {"tools/client", "tools/client/admin", "tools/bench/floor", "tools/output", "internal/program", "internal/quantity", "protocol/amqp", "protocol/atom/document", "log/event"},
	"tools/bench/floor":      {"protocol/amqp"},
	"cmd/ledgerbus":          {"cmd/settings", "cmd/broker", "tools/client", "tools/client/admin", "protocol/atom/document", "protocol/ledger/wire", "protocol/message", "tools", "tools/doctor", "tools/excerpt", "tools/export", "tools/mirror", "tools/offline", "tools/output", "engine", "engine/host", "engine/present", "engine/present/rows", "internal/program", "internal/quantity", "engine/ledger", "engine/ledger/address", "engine/ledger/print", "log", "log/event"},
	"cmd/ledgerbench":        {"tools/bench", "tools/client", "tools/client/admin", "internal/program"},
}

// libraries lists which packages import each module of others (tests apart), exactly: one package
// is the place for what the module is good for, and a second one is a decision. A module that no
// package imports is for tests.
var libraries = map[string][]string{
	"github.com/Azure/azure-sdk-for-go/sdk/azcore":                 {},
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus": {},
	"github.com/Azure/go-amqp":                                     {"tools/client", "tools/bench", "cmd/ledgerbus"},
	"github.com/RoaringBitmap/roaring/v2":                          {"index"},
	"github.com/coder/websocket":                                   {"protocol/listen"},
	"github.com/coreos/go-oidc/v3":                                 {"protocol/access"},
	"github.com/go-jose/go-jose/v4":                                {"protocol/access"},
	"github.com/gofrs/flock":                                       {"log/disk"},
	"github.com/google/go-cmp":                                     {},
	"github.com/google/go-containerregistry":                       {"internal/image"},
	"github.com/google/uuid":                                       {"log", "log/format", "protocol/atom", "protocol/atom/document", "cmd/settings", "tools/client", "cmd/ledgerbus"},
	"github.com/jedib0t/go-pretty/v6":                              {"tools/output"},
	"github.com/klauspost/compress":                                {"log", "log/sealed"},
	"github.com/parquet-go/parquet-go":                             {"tools/export"},
	"github.com/schollz/progressbar/v3":                            {"tools/bench", "cmd/ledgerbus"},
	"github.com/tidwall/gjson":                                     {"engine/filter", "protocol/ledger/wire", "tools/mirror", "tools/output", "cmd/ledgerbus"},
	"github.com/tidwall/jsonc":                                     {"cmd/settings"},
	"github.com/tidwall/wal":                                       {"tools/mirror"},
	"github.com/urfave/cli/v2":                                     {"tools/bench", "tools/output", "internal/program", "cmd/ledgerbus", "cmd/ledgerbench"},
	"go.uber.org/goleak":                                           {},
	"go.yaml.in/yaml/v3":                                           {"cmd/settings", "cmd/ledgerbus"},
	"golang.org/x/crypto/x509roots/fallback":                       {"internal/program"},
	"golang.org/x/sys":                                             {"log/disk", "engine/host", "cmd/broker", "cmd/ledgerbus"},
	"golang.org/x/term":                                            {"tools/bench", "cmd/ledgerbus"},
	// rate limits: decision 87
	"golang.org/x/time": {"engine/loop", "log", "protocol/access", "protocol/listen"},
}

// Rules and state see no clock, no randomness, no files, no network (reliability.md 3.1). SM-363:
// so a replay, which is index applying what log/event decodes, sees none; files it reads through
// log.
var pure = map[string][]string{
	"internal/quantity":     {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"log/event":             {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"log/format":            {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"log/sealed":            {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"index":                 {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"index/replay":          {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"engine/ledger/address": {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"engine/ledger":         {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"engine/ledger/print":   {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"engine":                {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"engine/filter":         {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
	"protocol/amqp":         {"os", "net"},
	"protocol/message":      {"os", "net", "math/rand", "math/rand/v2", "crypto/rand"},
}

// clocks are what package time has beside the types and arithmetic that everybody may use.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

// SM-363: what must see no clock may import package time, for its types, but calls nothing in it
// that asks for the time. Nor does it start a goroutine.
func TestNoClock(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		if _, ok := pure[f.Package()]; !ok {
			continue
		}
		ast.Inspect(f.Tree, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine", f.Path)
			}
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clocks, s.Sel.Name) {
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "time" {
					t.Errorf("%s uses time.%s", f.Path, s.Sel.Name)
				}
			}
			return true
		})
	}
}

// Durations of people have one parser (decision 91): only internal/quantity calls Go's, and no flag
// has Go's form.
func TestOneParser(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		if f.Package() == "internal/quantity" {
			continue
		}
		ast.Inspect(f.Tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "DurationFlag" || s.Sel.Name == "ParseDuration") {
				if of, ok := s.X.(*ast.Ident); ok && (of.Name == "time" || of.Name == "cli") {
					t.Errorf("%s uses %s.%s; internal/quantity reads durations", f.Path, of.Name, s.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	report(t, compareOwn(allowed, imports(product(t))))
}

// TestForbidden is about what no package of some kind may import at all.
func TestForbidden(t *testing.T) {
	t.Parallel()
	for name, list := range imports(product(t)) {
		for _, imp := range list {
			if imp == "log" {
				t.Errorf("%s imports the standard log; diagnostics are log/slog", name)
			}
			if name == "log" && imp == "os" {
				t.Error("log imports os; files are opened by log/disk, so that a simulation can be the disk")
			}
			if slices.Contains(pure[name], imp) {
				t.Errorf("%s must not import %s", name, imp)
			}
		}
	}
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(source.Root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, compareLibraries(libraries, requirements(string(text)), imports(product(t))))
}

// imports is what each package imports, whatever system or build tag a file is for.
func imports(files []*source.File) map[string][]string {
	found := map[string][]string{}
	for _, f := range files {
		list := found[f.Package()]
		for _, imp := range f.Tree.Imports {
			if p, err := strconv.Unquote(imp.Path.Value); err == nil && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
		found[f.Package()] = list
	}
	return found
}

// compareOwn says where imports of our own packages are not those allowed.
func compareOwn(allowed, found map[string][]string) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		may, known := allowed[name]
		if !known {
			problems = append(problems, fmt.Sprintf("package %s is not in the picture: enter it in allowed, and in docs/ARCHITECTURE.md", name))
			continue
		}
		for _, imp := range found[name] {
			if ours, ok := strings.CutPrefix(imp, module); ok && !slices.Contains(may, ours) {
				problems = append(problems, fmt.Sprintf("%s must not import %s", name, ours))
			}
		}
		for _, ours := range may {
			if !slices.Contains(found[name], module+ours) {
				problems = append(problems, fmt.Sprintf("%s does not import %s any more: take the permission away", name, ours))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if _, ok := found[name]; !ok {
			problems = append(problems, fmt.Sprintf("there is no package %s any more: delete it from allowed", name))
		}
	}
	return problems
}

// compareLibraries says where imports of other modules are not those listed. required are the
// modules of go.mod, of which true ones are imported by packages of ours and not only by other
// modules.
func compareLibraries(listed map[string][]string, required map[string]bool, found map[string][]string) (problems []string) {
	users := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		for _, imp := range found[name] {
			if lib := moduleOf(imp, required); lib != "" && !slices.Contains(users[lib], name) {
				users[lib] = append(users[lib], name)
			}
		}
	}
	for _, lib := range slices.Sorted(maps.Keys(required)) {
		may, known := listed[lib]
		if required[lib] && !known {
			problems = append(problems, fmt.Sprintf("%s is new in go.mod: enter it in libraries, with the packages that import it", lib))
		}
		for _, name := range users[lib] {
			if known && !slices.Contains(may, name) {
				problems = append(problems, fmt.Sprintf("%s must not import %s; that is for %s", name, lib, cmp.Or(strings.Join(may, ", "), "tests")))
			}
		}
	}
	for _, lib := range slices.Sorted(maps.Keys(listed)) {
		if !required[lib] {
			problems = append(problems, fmt.Sprintf("%s is not required by go.mod any more: delete it from libraries", lib))
		}
		for _, name := range listed[lib] {
			if !slices.Contains(users[lib], name) {
				problems = append(problems, fmt.Sprintf("%s does not import %s any more: delete it there from libraries", name, lib))
			}
		}
	}
	return problems
}

// moduleOf is the module that has a package, "" for the standard library and ours.
func moduleOf(imp string, required map[string]bool) (longest string) {
	for lib := range required {
		if (imp == lib || strings.HasPrefix(imp, lib+"/")) && len(lib) > len(longest) {
			longest = lib
		}
	}
	return longest
}

// requirements is the modules that a go.mod requires; false: only other modules import it.
func requirements(text string) map[string]bool {
	required := map[string]bool{}
	for line := range strings.Lines(text) {
		line, comment, _ := strings.Cut(line, "//")
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) == 2 && strings.HasPrefix(fields[1], "v") {
			required[fields[0]] = strings.TrimSpace(comment) != "indirect"
		}
	}
	return required
}

func product(t *testing.T) []*source.File {
	t.Helper()
	files, err := source.Go()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(files), func(f *source.File) bool { return !f.Product() })
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}
