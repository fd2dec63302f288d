package faultfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// scene is a file with synced and unsynced bytes, an unsynced file, a rename and a removal that are
// not synced.
func scene(t *testing.T) *FS {
	t.Helper()
	f := New()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string, n int, sync bool) {
		t.Helper()
		w, err := f.Create(name)
		do(err)
		_, err = w.Write(bytes.Repeat([]byte(text), n))
		do(err)
		if sync {
			do(w.Sync())
			_, err = w.Write(bytes.Repeat([]byte("u"), n))
			do(err)
		}
		do(w.Close())
	}
	do(f.Mkdir("/d"))
	do(f.SyncDir("/"))
	write("/d/kept", "s", 1000, true)
	write("/d/old", "o", 10, true)
	write("/d/gone", "g", 10, true)
	do(f.SyncDir("/d"))
	write("/d/new", "n", 10, false)
	do(f.Rename("/d/old", "/d/renamed"))
	do(f.Remove("/d/gone"))
	return f
}

// TestPowerLoss: synced bytes and entries are always there, the images are legal, all kinds of them
// come up, and the seed decides.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(500) {
		image := func() (*FS, string) {
			c := scene(t).Crash(rand.New(rand.NewPCG(seed, 0)), PowerLoss)
			p, err := c.ReadFile("/d/kept")
			if err != nil || len(p) < 1000 || len(p) > 2000 || !bytes.Equal(p[:1000], bytes.Repeat([]byte("s"), 1000)) {
				t.Fatalf("seed %d: synced bytes are gone: %v, %d bytes", seed, err, len(p))
			}
			return c, fmt.Sprint(c.Files("/"), p)
		}
		c, a := image()
		if _, b := image(); a != b {
			t.Fatalf("seed %d: two images", seed)
		}
		_, errOld := c.ReadFile("/d/old")
		_, errNew := c.ReadFile("/d/renamed")
		if (errOld == nil) == (errNew == nil) {
			t.Fatalf("seed %d: a renamed file has both names or none", seed)
		}
		p, _ := c.ReadFile("/d/kept")
		for _, k := range []string{fmt.Sprint(c.Files("/")), fmt.Sprint("long ", len(p) == 2000), fmt.Sprint("zero ", bytes.Contains(p, []byte{0, 0, 0})),
			fmt.Sprint("kept ", bytes.Contains(p, []byte("uuu")))} {
			seen[k] = true
		}
	}
	if len(seen) < 8+6 {
		t.Fatalf("only %d kinds of image: %v", len(seen), seen)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	f := scene(t)
	c := f.Crash(nil, Kill)
	if p, err := c.ReadFile("/d/kept"); err != nil || len(p) != 2000 {
		t.Fatalf("%+v %+v; want len(p) == 2000", err, len(p))
	}
	if got := fmt.Sprint(c.Files("/")); got != "[/d/kept /d/new /d/renamed]" {
		t.Fatalf(`%+v, want "[/d/kept /d/new /d/renamed]"`, got)
	}
	if _, err := f.Stat("/d"); !errors.Is(err, ErrCrashed) {
		t.Fatalf("%+v; want errors.Is(err, ErrCrashed)", err)
	}
}

// T3: every fault of the file system can be injected at every call.
func TestFaults(t *testing.T) {
	t.Parallel()
	f := scene(t)
	boom := errors.New("boom")
	f.FailAt(2, Fault{Err: boom, Short: 3}, false)
	w, err := f.Create("/d/x")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Write([]byte("12345")); n != 3 || !errors.Is(err, boom) {
		t.Fatalf("%+v %+v; want n == 3 && errors.Is(err, boom)", n, err)
	}
	f.FailAt(1, Fault{Err: boom, DropPages: true}, false)
	if err := w.Sync(); !errors.Is(err, boom) {
		t.Fatalf("%+v; want errors.Is(err, boom)", err)
	}
	if p, _ := f.ReadFile("/d/x"); !bytes.Equal(p, []byte{0, 0, 0}) {
		t.Fatalf("%q; want bytes.Equal(p, []byte{0, 0, 0})", p)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
}
