package engine

import (
	"encoding/binary"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// BenchmarkTransaction: ten sends of 1 KiB that are staged one by one and committed, per message:
// decided, encoded, applied. No log.
func BenchmarkTransaction(b *testing.B) {
	props := testQueue()
	props.MaxSizeMegabytes = 1 << 30
	const sends = 10
	body := make([]byte, 1024)
	var m *machine
	b.ReportAllocs()
	for i := range b.N {
		if i%100_000 == 0 {
			b.StopTimer()
			m = &machine{Partition: NewPartition(0, 1, index.New()), now: 1_000_000}
			m.queue(1, props)
			b.StartTimer()
		}
		m.frame.blobs, m.log = m.frame.blobs[:0], m.log[:0]
		var id event.TransactionID
		binary.BigEndian.PutUint64(id[:], uint64(i/sends))
		send := &Send{Slice: testSlice, Messages: []Message{{ID: []byte("4711"), Body: body}}}
		if r := m.ask(&Stage{Transaction: id, Operation: send, Bytes: len(body)}); r.Err != nil {
			b.Fatal(r.Err)
		}
		if i%sends == sends-1 {
			if r := m.ask(&Commit{Transaction: id, Slice: testSlice}); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}
