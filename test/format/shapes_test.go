package format

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
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
			if lines := agree(t, dir); len(lines) < 50 {
				t.Errorf("%d lines", len(lines))
			}
		})
	}
}

// unpack unpacks an archive of files.
func unpack(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
