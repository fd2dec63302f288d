package host

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// F21: if a start finds an event that does not fit the state, that is an internal fault: the start
// names the place, and its log has the stack, once.
func TestEventThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for partition := range log.PartitionID(2) {
		dir := t.TempDir()
		b := open(t, dir)
		b.close(t)
		d := logdir.Open(t, dir, log.Options{})
		_, w := d.Lead(partition)
		at := w.Batch().LSN()
		w.Batch().AppendRecord(1, []event.Event{&event.DuplicateDropped{}}, log.Durable)
		// never enqueued
		d.Append(w, 1, &event.MessageCompleted{Envelope: event.Envelope{Slice: event.Slice{Entity: 9}}, Sequence: 3})
		d.Close()
		d = logdir.Open(t, dir, log.Options{})
		var out bytes.Buffer
		n, err := Open(t.Context(), d.Store, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		want := fmt.Sprintf("engine: internal fault: partition %d: frame %d: record 2: index: *event.MessageCompleted of message 3 in slice 9/0, which does not exist", partition, at)
		if n != nil || !errors.Is(err, ErrInternal) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if text := out.String(); strings.Count(text, "level=ERROR") != 1 || strings.Count(text, "index.(*slice).complete") != 1 {
			t.Errorf("partition %d: %s", partition, text)
		}
		d.Close()
	}
}

// If a replay takes long, the start reports its progress, at most every ten seconds, and seldom
// reads the clock.
func TestTellProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tell := logProgress(slog.New(slog.NewTextHandler(&out, nil)), 3, 900<<20)
		for mib := event.LSN(10); mib <= 900; mib += 10 {
			time.Sleep(time.Second / 2)
			tell(mib << 20)
		}
		want := ""
		// looks are 70 MiB apart, which takes 3.5 seconds
		for i, mib := range []int{220, 430, 640, 850} {
			want += fmt.Sprintf("time=2000-01-01T00:00:%.3fZ level=INFO msg=\"replaying the log\" partition=3 lsn=%d end=%d\n", 11+10.5*float64(i), mib<<20, 900<<20)
		}
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
