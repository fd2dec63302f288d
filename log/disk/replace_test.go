package disk_test

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// contents returns the contents of a file.
func contents(t *testing.T, fsys disk.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); n < len(p) && !errors.Is(err, io.EOF) {
		t.Fatalf("%d of %d bytes, %v; want all of them or io.EOF", n, len(p), err)
	}
	return string(p)
}

// Whichever call fails while a file is replaced, it has its old contents or its new ones, and no
// other file is left.
func TestReplaceWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	for k := 1; ; k++ {
		fsys := faultfs.New()
		if err := errors.Join(fsys.Mkdir("/d"), disk.Replace(fsys, "/d/f", []byte("old"))); err != nil {
			t.Fatal(err)
		}
		calls, failed := 0, ""
		fsys.Hook(func(c faultfs.Call) faultfs.Fault {
			if calls++; calls == k {
				failed = c.String()
				return faultfs.Fault{Err: syscall.EIO}
			}
			return faultfs.Fault{}
		})
		err := disk.Replace(fsys, "/d/f", []byte("new"))
		fsys.Hook(nil)
		got := contents(t, fsys, "/d/f")
		if failed == "" {
			if err != nil || got != "new" || k < 5 {
				t.Errorf("after %d calls without a fault the file has %q, %v", k, got, err)
			}
			return
		}
		if err == nil || got != "old" && got != "new" {
			t.Errorf("%s failed: the file has %q, %v", failed, got, err)
		}
		if files := fsys.Files("/d"); !slices.Equal(files, []string{"/d/f"}) {
			t.Errorf("%s failed: there are %q", failed, files)
		}
	}
}

// A file whose contents cannot be made is not replaced.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New()
	if err := errors.Join(fsys.Mkdir("/d"), disk.Replace(fsys, "/d/f", []byte("old"))); err != nil {
		t.Fatal(err)
	}
	err := disk.Write(fsys, "/d/f", func(f disk.File) error {
		_, err := f.Write([]byte("half"))
		return errors.Join(err, io.ErrNoProgress)
	})
	if got := contents(t, fsys, "/d/f"); !errors.Is(err, io.ErrNoProgress) || got != "old" || len(fsys.Files("/d")) != 1 {
		t.Errorf("the file has %q beside %q, %v", got, fsys.Files("/d"), err)
	}
}
