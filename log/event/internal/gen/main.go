// Program gen writes the code that follows from the structs of package event: how events are
// stored, the table of their kinds, which messages they name, and which columns of an export they
// fill. The comment of package event describes its input. "go generate ./log/event" runs it.
package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed *.tmpl
var templates embed.FS

// outputs are the generated files, relative to the directory of package event, by their templates.
var outputs = map[string]string{
	"kinds.tmpl":   "kinds_generated.go",
	"codec.tmpl":   "codec_generated.go",
	"mention.tmpl": "mention_generated.go",
	"columns.tmpl": "../../tools/export/columns_generated.go",
}

func main() {
	files, err := generate(".")
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(name, text, 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate returns the generated files of the package in a directory, by their paths.
func generate(dir string) (map[string][]byte, error) {
	s, err := read(dir)
	if err != nil {
		return nil, err
	}
	if err := s.err(); err != nil {
		return nil, err
	}
	t, err := template.ParseFS(templates, "*.tmpl")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, output := range outputs {
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, name, s); err != nil {
			return nil, err
		}
		if files[filepath.Join(dir, output)], err = format.Source(b.Bytes()); err != nil && len(s.wrong) == 0 {
			return nil, fmt.Errorf("%s: %w", output, err)
		}
	}
	return files, s.err()
}
