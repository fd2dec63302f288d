package log

import (
	"encoding/hex"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

var update = flag.Bool("update", false, "write the golden files")

func goldenOptions(fsys disk.FS) Options {
	return Options{
		FS: fsys, Partitions: 1, SegmentBytes: 500, Manual: true, BootID: "7e8f7a3c-0000-4000-8000-000000000001",
		NamespaceID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Now: func() time.Time { return time.UnixMilli(1_600_000_000_000) },
	}
}

// golden compares bytes with a file of testdata, a hex dump. A difference means that old logs may
// become unreadable: it needs a new format version (docs/log-format.md).
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".hex")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(hex.Dump(got)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != hex.Dump(got) {
		t.Errorf("%s differs:\n%s", name, hex.Dump(got))
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, goldenOptions(disk.OS{}))
	if err != nil {
		t.Fatal(err)
	}
	writeGolden(t, s)
	for name, file := range map[string]string{
		"namespace": "namespace.json", "clean": "clean", "manifest": "partitions/00/manifest", "progress": "partitions/00/progress",
		"segment1": "partitions/00/wal/0000000001/00000000000000000001", "segment2": "partitions/00/wal/0000000001/00000000000000000004",
	} {
		p, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, p)
	}
}

// TestGoldenHeader has a different value in every field, so that swapping two shows.
func TestGoldenHeader(t *testing.T) {
	t.Parallel()
	h := format.Header{
		Kind: Events, Level: Durable, Bodies: 0x21, Records: 0x43, Count: 5, Partition: 6, Chapter: 7, Epoch: 8, LSN: 0x1000,
		First: 1_600_000_000_123, Durable: 0xff8, Chain: 0xc0ffee01, Tag: 0x1234abcd, Span: 17,
	}
	h.Length = uint32(format.FrameLength(int(h.Bodies), int(h.Records)))
	entry := make([]byte, h.Entry())
	for i := format.BodiesAt; i < format.BodiesAt+0x21+0x43; i++ {
		entry[i] = byte(i)
	}
	h.Seal(entry)
	golden(t, "frame", entry)
	var back format.Header
	if ok, err := back.Decode(entry); !ok || err != nil || back != h {
		t.Fatalf("%v %v\n%+v\n%+v; want ok && back == h", ok, err, back, h)
	}
}

func TestGoldenNotes(t *testing.T) {
	t.Parallel()
	golden(t, "fault", format.Fault.Encode(3, 0xabcd, format.Mark{LSN: 80, Epoch: 2, Chain: 0x77}))
	c := format.Checkpoint{LSN: 0x1000, Epoch: 9, Chain: 0xc0ffee02, PayloadSum: 0x11223344, Payload: 100, Size: 1000, Hash: [32]byte{1, 2, 3, 31: 32}}
	head, trailer := c.Head(3, 0xabcd), c.Trailer()
	golden(t, "checkpoint", append(append([]byte(nil), head...), trailer...))
	back, err := format.DecodeCheckpoint(head, trailer, format.CheckpointHead+100+format.CheckpointTrailer, 3, 0xabcd)
	if err != nil || back != c {
		t.Fatalf("%v %+v; want back == c", err, back)
	}
}

// A checkpoint written by an earlier binary is read: zstd's bytes may change with its version, so
// they are not compared.
func TestGoldenCheckpoint(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "checkpoint.ckpt")
	c := format.Checkpoint{LSN: 8, Epoch: 1}
	if *update {
		p := &partition{store: &store{fs: disk.OS{}, tag: 5}, dir: t.TempDir(), first: 8, end: format.Mark{LSN: 8}}
		if err := os.Mkdir(filepath.Join(p.dir, "checkpoints"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := p.writeCheckpoint(&c, func(w io.Writer) error { _, err := io.WriteString(w, "the state"); return err }); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(filepath.Join(p.dir, "checkpoints", format.CheckpointName(8)))
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := readCheckpoint(disk.OS{}, file, 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	r, err := openCheckpoint(disk.OS{}, file, 0, 5, c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if p, err := io.ReadAll(r); err != nil || string(p) != "the state" {
		t.Fatalf("%q %v", p, err)
	}
}
