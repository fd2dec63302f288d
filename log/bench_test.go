package log_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func benchStore(b *testing.B, dir string) (log.Store, log.Partition) {
	s := must(log.Open(ctx, dir, log.Options{Partitions: 1}))(b)
	return s, must(s.Open(ctx, 0))(b)
}

// BenchmarkAppend writes records with bodies of 1 KiB on a real disk.
func BenchmarkAppend(b *testing.B) {
	for _, level := range []log.Durability{log.Ordered, log.Durable} {
		for _, records := range []int{1, 64, 512} {
			name := fmt.Sprintf("sync=%v/records=%d", level == log.Durable, records)
			b.Run(name, func(b *testing.B) {
				s, p := benchStore(b, b.TempDir())
				w := must(p.Lead(ctx))(b)
				m := &event.MessageEnqueued{MessageID: make([]byte, 32), Body: event.Blob{Data: make([]byte, 1024)}}
				events := []event.Event{m}
				b.ReportAllocs()
				b.SetBytes(1024 * int64(records))
				var tickets [4]log.Ticket // that many frames are under way
				for i := 0; b.Loop(); i++ {
					batch := w.Batch()
					for range records {
						m.Sequence++
						batch.AppendRecord(1, events, level)
					}
					if t := tickets[i%4]; t != nil {
						<-t.Done()
					}
					tickets[i%4] = w.Append(batch)
				}
				for _, t := range tickets {
					if t != nil {
						<-t.Done()
					}
				}
				b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				s.Close()
			})
		}
	}
}

// fill writes n MiB in frames of 64 records of 1 KiB.
func fill(b testing.TB, dir string, mib int) []event.Blob {
	s := must(log.Open(ctx, dir, log.Options{Partitions: 1}))(b)
	w := must(must(s.Open(ctx, 0))(b).Lead(ctx))(b)
	var blobs []event.Blob
	var t log.Ticket
	for range mib * 16 {
		batch := w.Batch()
		for range 64 {
			m := &event.MessageEnqueued{MessageID: make([]byte, 32), Body: event.Blob{Data: make([]byte, 1024)}}
			batch.AppendRecord(1, []event.Event{m}, log.Ordered)
			blobs = append(blobs, m.Body)
		}
		t = w.Append(batch)
	}
	<-t.Done()
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return blobs
}

// BenchmarkRecover opens a log of 512 MiB that lies in the page cache.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, 512)
	var bytes int64
	for b.Loop() {
		s, p := benchStore(b, dir)
		bytes = p.Recovery().Bytes
		s.Close()
	}
	b.SetBytes(bytes)
}

// BenchmarkReplay reads the records back and decodes them.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, 64)
	s, p := benchStore(b, dir)
	defer s.Close()
	var d event.Decoder
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n = 0
		for f, err := range p.Read(ctx, 0) {
			if err != nil {
				b.Fatal(err)
			}
			for rest := f.Records; f.Kind == log.Events && len(rest) > 0; n++ {
				if _, rest, err = d.Record(f.Base, f.Bodies, rest); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkReadAt reads bodies of 1 KiB from anywhere.
func BenchmarkReadAt(b *testing.B) {
	dir := b.TempDir()
	blobs := fill(b, dir, 64)
	s, p := benchStore(b, dir)
	defer s.Close()
	b.SetBytes(1024)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var buf []byte
		var err error
		for pb.Next() {
			if buf, err = p.ReadBlob(blobs[rand.IntN(len(blobs))], buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
