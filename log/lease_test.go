package log

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// leaseNames are the leases in a directory.
func leaseNames(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "lease-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func sharing(t *testing.T, dir string, now func() time.Time) *store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{Shared: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*store)
}

// leasesHeld is how many leases the store that leads the log finds.
func leasesHeld(t *testing.T, leader Store, now func() time.Time) int {
	t.Helper()
	s := leader.(*store)
	s.opts.Now = now
	all, _ := s.leases()
	for _, l := range all {
		if l.PID != uint32(os.Getpid()) || !slices.Equal(l.Lowest, []event.LSN{format.FirstLSN, format.FirstLSN}) {
			t.Errorf("%+v; want l.PID == uint32(os.Getpid()) && slices.Equal(l.Lowest, []event.LSN{format.FirstLSN, format.FirstLSN})", l)
		}
	}
	return len(all)
}

// noLeases puts invalid files with names of leases next to a real one. It returns the target of the
// one that is a link.
func noLeases(t *testing.T, dir, lease string) (outside string) {
	t.Helper()
	outside = filepath.Join(t.TempDir(), "outside")
	whole, err := os.ReadFile(lease)
	if err != nil {
		t.Fatal(err)
	}
	for i, put := range []func(name string) error{
		func(string) error { return os.WriteFile(outside, whole, 0o600) },
		func(name string) error { return os.Symlink(outside, name) },
		func(name string) error { return os.Mkdir(name, 0o700) },
		func(name string) error { return os.WriteFile(name, whole[:20], 0o600) },
		func(name string) error { return os.WriteFile(name, append(whole, make([]byte, 1<<20)...), 0o600) },
	} {
		if err := put(filepath.Join(dir, format.LeaseName(uint64(i)))); err != nil {
			t.Fatal(err)
		}
	}
	return outside
}

// TestLease: a shared reader has a lease. The store that leads the log reads from it what the
// reader needs, until the reader ends or stops for a minute. Files that only look like leases are
// ignored and left alone.
func TestLease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leader, err := Open(t.Context(), dir, Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer leader.Close()
	now := time.UnixMilli(1_900_000_000_000)
	clock := func() time.Time { return now }
	share := func() *store { return sharing(t, dir, clock) }
	held := func() int { return leasesHeld(t, leader, clock) }
	a := share()
	names := leaseNames(t, dir)
	if len(names) != 1 || held() != 1 {
		t.Fatalf("%q, %d held", names, held())
	}
	if st, err := os.Stat(names[0]); err != nil || st.Mode().Perm() != 0o600 || st.Size() > format.MaxLease {
		t.Errorf("%v %v; want st.Mode().Perm() == 0o600 && st.Size() <= format.MaxLease", st, err)
	}
	now = now.Add(leaseEnds + time.Second)
	if held() != 0 {
		t.Error("the lease of a reader that stands still is respected")
	}
	a.fs.Open(filepath.Join(dir, "namespace.json"))
	if held() != 1 {
		t.Error("a lease is not renewed")
	}
	now = now.Add(leaseEnds + time.Second)
	outside := noLeases(t, dir, names[0])
	b := share()
	if held() != 1 {
		t.Errorf("%d held", held())
	}
	if n := len(leaseNames(t, dir)); n != 5 { // the ended one is removed, four are left alone
		t.Errorf("%d files", n)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	for range maxLeases {
		c := share()
		defer c.Close()
	}
	if n := held(); n != maxLeases {
		t.Errorf("%d leases", n)
	}
	for _, s := range []*store{a, b} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := held(); n != maxLeases-1 {
		t.Errorf("%d leases behind the end of one", n)
	}
}

// A reader continues without a lease that was removed.
func TestLeaseRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	look, err := Open(t.Context(), dir, Options{Shared: true, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(leaseNames(t, dir)[0]); err != nil { // by who found it in the way
		t.Fatal(err)
	}
	if err := look.Close(); err != nil {
		t.Error(err)
	}
}

// leasedLog is a log in use with two sealed files at least, each with bodies.
func leasedLog(t *testing.T, dir string) (*store, *partition, Writer) {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{Partitions: 1, Manual: true, SealAfter: -1, SegmentBytes: 8 << 10, ChapterBytes: 8 << 10, RoomBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := part.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range event.SequenceNumber(40) {
		w.Batch().AppendRecord(event.Time(i), []event.Event{&event.MessageEnqueued{Sequence: i + 1, Body: event.Blob{Data: make([]byte, 1000)}}}, Durable)
		w.Append(w.Batch())
		for w.(ManualWriter).Work() {
		}
	}
	p := part.(*partition)
	for more := true; more; {
		if more, err = p.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s.(*store), p, w
}

// The data that a reader beside the broker still needs stays: while it has a lease, no body of a
// sealed file before its end is dropped, and no file is removed. After its end both are removed.
// They are also removed if the disk has little room, because a lease is a courtesy.
func TestLeaseKeepsHistory(t *testing.T) {
	t.Parallel()
	for name, low := range map[string]bool{"room enough": false, "little room": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, p, w := leasedLog(t, dir)
			reader := sharing(t, dir, time.Now)
			if low {
				s.reserve.state.Store(&roomSince{room: RoomLow})
			}
			file := p.Segments()[0].File
			drop := func() error {
				_, err := p.DropBodies(t.Context(), file, func(*Body) bool { return false }, 1)
				return err
			}
			if err := drop(); !low && !errors.Is(err, ErrHeld) || low && err != nil {
				t.Errorf("bodies beside a reader: %v", err)
			}
			at := p.Segments()[1].First
			if err := p.SaveBase(t.Context(), BaseInfo{LSN: at}, func(out io.Writer) error {
				_, err := out.Write([]byte("what a state is made of"))
				return err
			}, func(io.Reader) error { return nil }); err != nil {
				t.Fatal(err)
			}
			remove := func() error {
				_, err := p.DropFiles(t.Context(), func(event.LSN, event.LSN) (bool, []KeptBody) { return false, nil })
				return err
			}
			if err := remove(); !low && !errors.Is(err, ErrHeld) || low && err != nil {
				t.Errorf("files beside a reader: %v", err)
			}
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
			if !low {
				if err := errors.Join(drop(), remove()); err != nil {
					t.Errorf("when the reader has ended: %v", err)
				}
			}
			if first := p.Segments()[0].First; first != at {
				t.Errorf("the log begins at %d, not at %d", first, at)
			}
			if err := errors.Join(w.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
