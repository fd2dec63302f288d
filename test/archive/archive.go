// Package archive reads the data directories that tests have as archives.
package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"iter"
	"os"
	"testing"
)

// Files are the files of a tar.gz in their order, by name with slashes, with what is in them.
// Directories are left out. What fails ends the test.
func Files(t testing.TB, name string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		t.Helper()
		f, err := os.Open(name)
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
			if h.Typeflag == tar.TypeDir {
				continue
			}
			p, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(h.Name, p) {
				return
			}
		}
	}
}
