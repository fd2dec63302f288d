package log_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

var ctx = context.Background()

// message is an event whose body says which one it is.
func message(n, size int) *event.MessageEnqueued {
	body := bytes.Repeat([]byte{byte(n)}, max(size, 24))
	copy(body, fmt.Sprintf("message %d.", n))
	return &event.MessageEnqueued{
		Envelope: event.Envelope{Slice: event.Slice{Entity: 1}}, Sequence: event.SequenceNumber(n),
		MessageID: fmt.Appendf(nil, "id-%d", n), EnqueuedAt: event.Time(n), Body: event.Blob{Data: body},
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// replay reads all messages of a partition back, including bodies.
func replay(t testing.TB, p log.Partition, from event.LSN) []event.SequenceNumber {
	t.Helper()
	var list []event.SequenceNumber
	var d event.Decoder
	var body []byte
	for f, err := range p.Read(ctx, from) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind != log.Events {
			continue
		}
		rest := f.Records
		for len(rest) > 0 {
			var rec event.Record
			rec, rest, err = d.Record(f.Base, f.Bodies, rest)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range rec.Events {
				m := ev.(*event.MessageEnqueued)
				if body, err = p.ReadBlob(m.Body, body[:0]); err != nil {
					t.Fatal(err)
				}
				if !bytes.HasPrefix(body, fmt.Appendf(nil, "message %d.", m.Sequence)) {
					t.Fatalf("message %d has body %q", m.Sequence, body)
				}
				list = append(list, m.Sequence)
			}
		}
	}
	return list
}

func TestAppendReopenRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	for run := range 3 {
		s := must(log.Open(ctx, dir, log.Options{Partitions: 2, SegmentBytes: 8 << 10, ChapterBytes: 64 << 10}))(t)
		p := must(s.Open(ctx, 1))(t)
		if got := replay(t, p, 0); len(got) != n {
			t.Fatalf("run %d: %d messages, want %d", run, len(got), n)
		}
		if run > 0 && !p.Recovery().Clean {
			t.Fatal("not clean")
		}
		w := must(p.Lead(ctx))(t)
		var last log.Ticket
		for range 100 {
			b := w.Batch()
			for range 3 {
				n++
				b.AppendRecord(event.Time(n), []event.Event{message(n, 500)}, log.Durable)
			}
			last = w.Append(b)
		}
		<-last.Done()
		if last.Err() != nil {
			t.Fatal(last.Err())
		}
		if got := replay(t, p, 0); len(got) != n {
			t.Fatalf("run %d: %d messages live, want %d", run, len(got), n)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
