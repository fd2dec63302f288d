package servicebus

import (
	"fmt"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// readAhead reads bodies from the log. Messages sent one after the other lie next to each other, so one read often serves
// many deliveries.
type readAhead struct {
	buf  *[]byte
	host engine.PartitionID
	at   event.Position
	n    int
}

const aheadSize = 128 << 10

var aheadBuffers = sync.Pool{New: func() any { b := make([]byte, aheadSize); return &b }}

// blob returns the bytes of a blob, checked against its sum. They are good until the next call. far allows to read more
// than asked for.
func (r *readAhead) blob(broker engine.Broker, host engine.PartitionID, b *event.Blob, far bool) ([]byte, error) {
	size := int(b.Size)
	if size == 0 {
		return nil, nil
	}
	data := r.within(host, b)
	if data == nil {
		if err := r.fill(broker, host, b, far); err != nil {
			return nil, err
		}
		data = (*r.buf)[:size]
	}
	if !b.Matches(data) {
		return nil, fmt.Errorf("servicebus: body at position %d of partition %d: checksum %08x instead of %08x", b.Position, host, event.Sum(data), b.Sum)
	}
	return data, nil
}

func (r *readAhead) within(host engine.PartitionID, b *event.Blob) []byte {
	if r.buf == nil || host != r.host || b.Position < r.at {
		return nil
	}
	from := uint64(b.Position - r.at)
	if from+uint64(b.Size) > uint64(r.n) {
		return nil
	}
	return (*r.buf)[from : from+uint64(b.Size)]
}

func (r *readAhead) fill(broker engine.Broker, host engine.PartitionID, b *event.Blob, far bool) error {
	size := int(b.Size)
	if r.buf == nil || len(*r.buf) < size {
		r.drop()
		if size <= aheadSize {
			r.buf = aheadBuffers.Get().(*[]byte)
		} else {
			big := make([]byte, size)
			r.buf = &big
		}
	}
	want := size
	if far {
		want = max(size, min(len(*r.buf), aheadSize))
	}
	r.host, r.at, r.n = host, b.Position, 0
	for r.n < size {
		n, err := broker.ReadAt(host, b.Position+event.Position(r.n), (*r.buf)[r.n:want])
		r.n += n
		if r.n >= size {
			break
		}
		if err != nil {
			r.n = 0
			return err
		}
		if n == 0 {
			r.n = 0
			return fmt.Errorf("servicebus: body at position %d of partition %d: %d bytes missing", b.Position, host, size-r.n)
		}
	}
	return nil
}

// drop gives the buffer back.
func (r *readAhead) drop() {
	if r.buf != nil && len(*r.buf) == aheadSize {
		aheadBuffers.Put(r.buf)
	}
	r.buf, r.n = nil, 0
}
