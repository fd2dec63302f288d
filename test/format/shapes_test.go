package format

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/archive"
)

// TestShapes: the directories that builds of other times wrote are the same to both readers.
func TestShapes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../compatible/testdata/*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no directories", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, file, dir)
			if sealed, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "sealed", "*")); err != nil || len(sealed) > 0 {
				needsZstd(t)
			}
			if lines := agree(t, dir); len(lines) < 30 {
				t.Errorf("%d lines", len(lines))
			}
		})
	}
}

// unpack unpacks an archive of files.
func unpack(t *testing.T, file, dir string) {
	t.Helper()
	for name, p := range archive.Files(t, file) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, p, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
