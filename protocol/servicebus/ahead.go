package servicebus

import (
	"fmt"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// readAhead reads bodies from the log. Messages sent in a row are next to each other, so one read
// often serves many deliveries.
type readAhead struct {
	buf  *[]byte
	host engine.PartitionID
	at   event.Position
	n    int

	filled bool // the log was read since this was last reset
}

const aheadSize = 128 << 10

var aheadBuffers = sync.Pool{New: func() any { b := make([]byte, aheadSize); return &b }}

// blob returns the bytes of a blob after checking their checksum. They are valid until the next
// call. far allows it to read more than requested.
func (r *readAhead) blob(broker engine.Broker, host engine.PartitionID, b *event.Blob, far bool) ([]byte, error) {
	size := int(b.Size)
	if size == 0 {
		return nil, nil
	}
	if data := r.within(host, b); data != nil && b.Matches(data) {
		return data, nil
	}
	if err := r.fill(broker, host, b, size, far); err != nil { // the error says what is wrong
		return nil, err
	}
	return (*r.buf)[:size], nil
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

// fill reads the first size bytes of a blob. If far is set, it also reads as many bytes after them
// as may serve the next deliveries.
func (r *readAhead) fill(broker engine.Broker, host engine.PartitionID, b *event.Blob, size int, far bool) error {
	r.filled = true
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
	n, err := broker.ReadInto(host, *b, (*r.buf)[:want])
	if err == nil && n < size {
		err = fmt.Errorf("servicebus: body at position %d of partition %d: %d bytes missing", b.Position, host, size-n)
	}
	if err == nil {
		r.n = n
	}
	return err
}

// drop frees the buffer.
func (r *readAhead) drop() {
	if r.buf != nil && len(*r.buf) == aheadSize {
		aheadBuffers.Put(r.buf)
	}
	r.buf, r.n = nil, 0
}
