package log

import (
	"errors"
	"io"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// heldLog returns a log on disk with closed chapters, of which the first are sealed.
type heldLog struct {
	fs *faultfs.FS
	p  *partition
}

const heldDir = "/data"

func newHeldLog(t *testing.T) *heldLog {
	t.Helper()
	h := &heldLog{fs: faultfs.New()}
	if err := h.fs.Mkdir(heldDir); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), heldDir, Options{FS: h.fs, Partitions: 1, Manual: true, SealAfter: -1, SegmentBytes: 8 << 10, ChapterBytes: 8 << 10, RoomBytes: -1})
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
	t.Cleanup(func() {
		h.fs.Hook(nil)
		if err := errors.Join(w.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	for i := range event.SequenceNumber(40) {
		w.Batch().AppendRecord(event.Time(i), []event.Event{&event.MessageEnqueued{Sequence: i + 1, Body: event.Blob{Data: make([]byte, 1000)}}}, Durable)
		w.Append(w.Batch())
		for w.(ManualWriter).Work() {
		}
	}
	h.p = part.(*partition)
	for range 3 {
		if err := h.seal(t); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *heldLog) seal(t *testing.T) error {
	_, err := h.p.Seal(t.Context())
	return err
}

func (h *heldLog) drop(t *testing.T) error {
	_, err := h.p.DropBodies(t.Context(), h.p.Segments()[0].File, func(*Body) bool { return false }, 1)
	return err
}

// base makes a base before the file with that number.
func (h *heldLog) base(t *testing.T, file int) error {
	return h.p.SaveBase(t.Context(), BaseInfo{LSN: h.p.Segments()[file].First}, func(out io.Writer) error {
		_, err := out.Write([]byte("what a state is made of"))
		return err
	}, func(io.Reader) error { return nil })
}

func (h *heldLog) remove(t *testing.T) error {
	_, err := h.p.DropFiles(t.Context(), func(event.LSN, event.LSN) (bool, []KeptBody) { return false, nil })
	return err
}

// hold begins a hold, unless the log is just replacing a file or writing its manifest, and returns
// the files that a copy begun now would read. It waits for no lock: the log may be holding it.
func (h *heldLog) hold() (names []string) {
	if !h.p.listing.TryLock() {
		return nil
	}
	h.p.listing.Unlock()
	if !h.p.copying.TryRLock() {
		return nil
	}
	for _, s := range h.p.Segments() {
		names = append(names, s.File)
	}
	if b, ok := h.p.Base(); ok {
		names = append(names, b.File)
	}
	return names
}

// TestHeldFilesStay checks that a copy finds the files of the log at the start of its hold, at any
// moment of sealing, dropping bodies, removing files and making a base. The hold begins in turn
// before each call of the file system that does not replace a file.
func TestHeldFilesStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, act func(*heldLog, *testing.T) error
	}{
		"seal":        {act: (*heldLog).seal},
		"drop bodies": {act: (*heldLog).drop},
		"remove files": {
			before: func(h *heldLog, t *testing.T) error { return h.base(t, 2) },
			act:    (*heldLog).remove,
		},
		"another base": {
			before: func(h *heldLog, t *testing.T) error { return h.base(t, 1) },
			act:    func(h *heldLog, t *testing.T) error { return h.base(t, 2) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused, done := 0, 0
			for k := 1; ; k++ {
				h := newHeldLog(t)
				if c.before != nil {
					if err := c.before(h, t); err != nil {
						t.Fatal(err)
					}
				}
				var held []string
				first := h.fs.Calls()
				h.fs.Hook(func(call faultfs.Call) faultfs.Fault {
					if call.N == first+k {
						held = h.hold()
					}
					return faultfs.Fault{}
				})
				err := c.act(h, t)
				if h.fs.Calls() < first+k {
					break // the hold would have begun after the last call
				}
				if held == nil {
					continue
				}
				for _, file := range held {
					if _, err := h.fs.ReadFile(heldDir + "/" + file); err != nil {
						t.Errorf("a hold before call %d: %s is gone: %v", k, file, err)
					}
				}
				switch {
				case err == nil:
					done++
				case errors.Is(err, ErrHeld) || errors.Is(err, errCopied):
					refused++
				default:
					t.Errorf("a hold before call %d: %v", k, err)
				}
				h.p.copying.RUnlock()
				if err != nil {
					if err := c.act(h, t); err != nil {
						t.Errorf("when the hold before call %d has ended: %v", k, err)
					}
				}
			}
			if done+refused == 0 {
				t.Error("no hold began")
			}
			t.Logf("%d times it waited for the end of the hold, %d times it went on", refused, done)
		})
	}
}
