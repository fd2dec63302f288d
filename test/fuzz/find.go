package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// find returns the fuzz targets of the module in a directory whose names match.
func find(root string, only *regexp.Regexp) ([]target, error) {
	var targets []target
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && foreign(path):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		names, err := declared(path)
		for _, name := range names {
			if t := (target{filepath.Dir(path), name}); only.MatchString(t.String()) {
				targets = append(targets, t)
			}
		}
		return err
	})
	return targets, err
}

// foreign reports whether ./... leaves the directory out.
func foreign(dir string) bool {
	name := filepath.Base(dir)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// declared returns the names of the fuzz targets that a file declares.
func declared(file string) (names []string, err error) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && isTarget(f) {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// isTarget reports whether a function is one that go test would fuzz: func FuzzName(f *testing.F).
func isTarget(f *ast.FuncDecl) bool {
	if f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") || len(f.Type.Params.List) != 1 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "F"
}
