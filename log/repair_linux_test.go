package log_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ledgerbus/ledgerbus/log"
)

// F8 on a disk of the kernel's.
func TestF8StartOnFullTmpfs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	data, filler := filepath.Join(dir, "data"), filepath.Join(dir, "filler")
	shrink := func(by int64) {
		if err := os.Truncate(filler, must(os.Stat(filler))(t).Size()-by); err != nil {
			t.Fatal(err)
		}
	}
	fill := func() {
		f := must(os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
		for err := error(nil); err == nil; {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
	}
	fullDirectory(t, data, log.Options{}, func() {
		fill()
		shrink(64 << 10) // which half a frame takes
	})
	shrink(256 << 10) // less than one segment
	if err := lead(t, data, log.Options{}); err != nil {
		t.Error(err)
	}
}
