// Package source reads the Go files of this repository for the tests that look at its shape:
// test/layering and test/tidy. It asks neither the go command nor the network, and sees every file
// whatever system or build tag it is for.
package source

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Root is the repository's, as seen by a test of a package two directories below it.
const Root = "../.."

// File is a Go file of the repository.
type File struct {
	Path  string // from the root, with slashes
	Lines int
	Tree  *ast.File

	set *token.FileSet
}

// Go reads every Go file that is not generated, in order of their paths. It reads them once a
// process; nobody may change them.
var Go = sync.OnceValues(func() ([]*File, error) {
	paths, err := Paths()
	if err != nil {
		return nil, err
	}
	var goFiles []string
	for _, p := range paths {
		if path.Ext(p) == ".go" && !Testdata(p) {
			goFiles = append(goFiles, p)
		}
	}
	return parseAll(goFiles)
})

// Testdata reports whether a file is what tests work on or compare with.
func Testdata(p string) bool { return strings.Contains(p, "/testdata/") }

// Paths lists the files of the repository, from the root and with slashes, without what tools leave
// in a clone.
func Paths() ([]string, error) {
	var paths []string
	err := filepath.WalkDir(Root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(Root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case entry.IsDir() && rel != "." && foreign(rel):
			return fs.SkipDir
		case !entry.IsDir():
			paths = append(paths, rel)
		}
		return nil
	})
	return paths, err
}

// foreign reports whether a directory holds what tools left.
func foreign(dir string) bool {
	switch base := path.Base(dir); base {
	case "node_modules", "target", "__pycache__":
		return true
	case "bin", "dist", "data", "reports":
		return dir == base
	default:
		return strings.HasPrefix(base, ".")
	}
}

// parseAll parses as many files at a time as there are processors.
func parseAll(paths []string) ([]*File, error) {
	files, errs := make([]*File, len(paths)), make([]error, len(paths))
	next := make(chan int, len(paths))
	for i := range paths {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				files[i], errs[i] = read(paths[i])
			}
		})
	}
	workers.Wait()
	own := files[:0]
	for i, f := range files {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if !ast.IsGenerated(f.Tree) {
			own = append(own, f)
		}
	}
	return own, nil
}

func read(p string) (*File, error) {
	text, err := os.ReadFile(filepath.Join(Root, filepath.FromSlash(p)))
	if err != nil {
		return nil, err
	}
	return Parse(p, string(text))
}

// Parse makes a File of a text, as if it stood at a path of the repository.
func Parse(p, text string) (*File, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	return &File{Path: p, Lines: strings.Count(text, "\n"), Tree: tree, set: set}, nil
}

// Line is the number of the line that a position of the file's tree is on.
func (f *File) Line(p token.Pos) int { return f.set.Position(p).Line }

// Package is the directory of the file, which is the import path of its package below the module's.
func (f *File) Package() string { return path.Dir(f.Path) }

// Product reports whether the file is part of what is built for users, and not of a test, of what
// only tests use, or of the examples of a guide.
func (f *File) Product() bool {
	return !strings.HasSuffix(f.Path, "_test.go") && !strings.HasPrefix(f.Path, "test/") && !strings.HasPrefix(f.Path, "docs/")
}

// Declarations is what the file declares at its top level, each with the name of the function,
// "open", or method, "writer.open". What is no function has none.
func (f *File) Declarations() iter.Seq2[string, ast.Decl] {
	return func(yield func(string, ast.Decl) bool) {
		for _, d := range f.Tree.Decls {
			name := ""
			if decl, ok := d.(*ast.FuncDecl); ok {
				name = decl.Name.Name
				if decl.Recv != nil && len(decl.Recv.List) == 1 {
					name = TypeName(decl.Recv.List[0].Type) + "." + name
				}
			}
			if !yield(name, d) {
				return
			}
		}
	}
}

// TypeName is the name of a type expression without pointer and type parameters, "" if it has none.
// That of a type of another package is with its package: "sync.Mutex".
func TypeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return TypeName(x.X)
	case *ast.ParenExpr:
		return TypeName(x.X)
	case *ast.IndexExpr:
		return TypeName(x.X)
	case *ast.IndexListExpr:
		return TypeName(x.X)
	case *ast.SelectorExpr:
		if of, ok := x.X.(*ast.Ident); ok {
			return of.Name + "." + x.Sel.Name
		}
	}
	return ""
}
