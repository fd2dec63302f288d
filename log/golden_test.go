package log

import (
	"encoding/hex"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func goldenOptions(fsys FS) Options {
	return Options{
		FS: fsys, Partitions: 1, SegmentBytes: 500, Manual: true, BootID: "7e8f7a3c-0000-4000-8000-000000000001",
		NamespaceID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Now: func() time.Time { return time.UnixMilli(1_600_000_000_000) },
	}
}

// golden compares bytes with a file of testdata, a hex dump. A difference means that old logs may become unreadable:
// it needs a new format version (docs/log-format.md).
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
	s, err := Open(t.Context(), dir, goldenOptions(osFS{}))
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
	h := header{
		kind: Events, level: Durable, bodies: 0x21, records: 0x43, count: 5, partition: 6, chapter: 7, epoch: 8, lsn: 0x1000,
		first: 1_600_000_000_123, durable: 0xff8, chain: 0xc0ffee01, tag: 0x1234abcd, span: 17,
	}
	h.length = uint32(frameLength(int(h.bodies), int(h.records)))
	entry := make([]byte, h.entry())
	for i := bodiesAt; i < bodiesAt+0x21+0x43; i++ {
		entry[i] = byte(i)
	}
	h.seal(entry)
	golden(t, "frame", entry)
	var back header
	if ok, err := back.get(entry[prefixSize:]); !ok || err != nil || back != h {
		t.Fatalf("%v %v\n%+v\n%+v", ok, err, back, h)
	}
}

func TestGoldenNotes(t *testing.T) {
	t.Parallel()
	golden(t, "fault", sealNote("LBFT", 3, 0xabcd, mark{lsn: 80, epoch: 2, chain: 0x77}.append(nil)))
	c := checkpoint{lsn: 0x1000, epoch: 9, chain: 0xc0ffee02, payloadSum: 0x11223344, payload: 100, size: 1000, hash: [32]byte{1, 2, 3, 31: 32}}
	head, trailer := c.head(3, 0xabcd), c.trailer()
	golden(t, "checkpoint", append(append([]byte(nil), head...), trailer...))
	back, err := decodeCheckpoint(head, trailer, checkpointHead+100+checkpointTrailer, 3, 0xabcd)
	if err != nil || back != c {
		t.Fatalf("%v %+v", err, back)
	}
}

// A checkpoint written by an earlier binary is read: zstd's bytes may change with its version, so they are not compared.
func TestGoldenCheckpoint(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "checkpoint.ckpt")
	c := checkpoint{lsn: 8, epoch: 1}
	if *update {
		p := &partition{store: &store{fs: osFS{}, tag: 5}, dir: t.TempDir(), first: 8, end: mark{lsn: 8}}
		if err := os.Mkdir(filepath.Join(p.dir, "checkpoints"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := p.writeCheckpoint(&c, func(w io.Writer) error { _, err := io.WriteString(w, "the state"); return err }); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(filepath.Join(p.dir, "checkpoints", checkpointName(8)))
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := readCheckpoint(osFS{}, file, 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	r, err := openCheckpoint(osFS{}, file, 0, 5, c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if p, err := io.ReadAll(r); err != nil || string(p) != "the state" {
		t.Fatalf("%q %v", p, err)
	}
}
