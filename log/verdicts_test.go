package log_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// A start and a survey share one walk, so that their agreement does not prove them right. The texts
// of both are in a file, for random damage from fixed seeds. -update writes it; a difference is a
// change of what users see.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	unclean, _ := quiet(t, 1024)
	clean := newWorld(t, t.Name(), 8)
	if err := errors.Join(clean.life(), clean.stop()); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 4))
		w := []*world{unclean, clean}[rng.IntN(2)]
		w.on(w.fs, func(w *world) {
			w.boot = max(w.boot-rng.IntN(2), 0)
			fmt.Fprintf(&got, "%d\n", seed)
			for range 1 + rng.IntN(3) {
				fmt.Fprintf(&got, "  %s\n", strings.ReplaceAll(w.harm(rng), simDir+"/partitions/", ""))
			}
			got.WriteString(w.verdict(w.blind(rng)))
		})
	}
	file := filepath.Join("testdata", "verdicts.txt")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// blind chooses, in one case of eight, a file that cannot be opened or read; else it returns "".
func (w *world) blind(rng *rand.Rand) string {
	files := w.fs.Files(simDir + "/partitions")
	if rng.IntN(8) > 0 || len(files) == 0 {
		return ""
	}
	return files[rng.IntN(len(files))]
}

// verdict returns what a start and a survey report of partition 0, while the named file, if any,
// cannot be read.
func (w *world) verdict(unreadable string) string {
	w.t.Helper()
	var b strings.Builder
	if unreadable != "" {
		fmt.Fprintf(&b, "  unreadable %s\n", strings.TrimPrefix(unreadable, simDir+"/partitions/"))
	}
	w.fs.Hook(func(c faultfs.Call) faultfs.Fault {
		if c.Name == unreadable && (c.Op == faultfs.OpRead || c.Op == faultfs.OpOpen && len(unreadable)%2 == 0) {
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	})
	opts := w.opts
	opts.FS, opts.BootID = w.fs, fmt.Sprint("boot-", w.boot)
	s, err := log.Open(ctx, simDir, opts)
	if err != nil {
		fmt.Fprintf(&b, "  refused %v\n", err)
	} else {
		p, err := s.Open(ctx, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "  starts %+v\n", p.Recovery())
		if err := s.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	places, out := w.survey()
	for _, c := range places {
		fmt.Fprintf(&b, "  place %v\n", c)
	}
	fmt.Fprintf(&b, "  survey %d frames, %d records, %d bytes, discarded %v\n", out.Frames, out.Records, out.Bytes, out.Discarded)
	for _, c := range out.Checkpoints {
		fmt.Fprintf(&b, "  checkpoint %d\n", c.LSN)
	}
	return b.String()
}
