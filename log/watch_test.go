package log_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// lines has the lines of a logger.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// TestF11HangIsNoticed: a sync that does not return is noticed within a second, and reported once,
// only for its partition. Frames that wait for it neither fail nor are acknowledged before it
// returns.
func TestF11HangIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said lines
		fsys := faultfs.New()
		s := must(log.Open(ctx, simDir, log.Options{FS: fsys, Partitions: 2, Logger: slog.New(slog.NewTextHandler(&said, nil))}))(t)
		var writers []log.Writer
		for _, id := range s.Partitions() {
			writers = append(writers, must(must(s.Open(ctx, id))(t).Lead(ctx))(t))
		}
		release := make(chan struct{})
		fsys.During(func(name string) {
			if strings.Contains(name, "/partitions/01/") {
				<-release
			}
		})
		b := writers[1].Batch()
		b.AppendRecord(1, []event.Event{message(1, 100)}, log.Durable)
		k := writers[1].Append(b)
		time.Sleep(700 * time.Millisecond)
		if !writers[1].DiskState().Hangs.IsZero() {
			t.Error("a sync of 0.7 s is said to hang")
		}
		time.Sleep(300 * time.Millisecond)
		if since := time.Since(writers[1].DiskState().Hangs); since < 900*time.Millisecond || since > time.Second {
			t.Errorf("the disk has been hanging for %v after a second", since)
		}
		if !writers[0].DiskState().Hangs.IsZero() {
			t.Error("the other partition hangs, too")
		}
		time.Sleep(time.Minute)
		select {
		case <-k.Done():
			t.Errorf("answered while the disk hangs: %v", k.Err())
		default:
		}
		fsys.During(nil)
		close(release)
		<-k.Done()
		time.Sleep(200 * time.Millisecond)
		if k.Err() != nil || !writers[1].DiskState().Hangs.IsZero() {
			t.Errorf("%v; hangs since %v", k.Err(), writers[1].DiskState().Hangs)
		}
		if said.count("disk hangs") != 1 || said.count("disk answers again") != 1 {
			t.Errorf("said:\n%s", &said.text)
		}
		for _, w := range writers {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
