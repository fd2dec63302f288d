package log

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// FuzzCheckpoint opens anything as a checkpoint whose checksums were made to match: no panic, and
// only the state that has the hash comes out.
func FuzzCheckpoint(f *testing.F) {
	good, err := os.ReadFile(filepath.Join("testdata", "checkpoint.ckpt"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[format.CheckpointHead:len(good)-format.CheckpointTrailer], int64(9))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, payload []byte, size int64) {
		c := format.Checkpoint{LSN: 8, Epoch: 1, Payload: int64(len(payload)), PayloadSum: event.Sum(payload), Size: size}
		file := append(append(c.Head(0, 5), payload...), c.Trailer()...)
		tmp, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(tmp.Name())
		tmp.Write(file)
		tmp.Close()
		back, err := readCheckpoint(disk.OS{}, tmp.Name(), 0, 5)
		if err != nil {
			return
		}
		r, err := openCheckpoint(disk.OS{}, tmp.Name(), 0, 5, back)
		if err != nil {
			return
		}
		defer r.Close()
		if n, err := io.Copy(io.Discard, r); err == nil {
			t.Fatalf("%d bytes were accepted whose hash is zero", n)
		}
	})
}
