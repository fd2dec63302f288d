package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Record is one decision, where it stands in the log.
type Record struct {
	event.Record
	LSN, Next event.LSN // of the frame it is in, and of the frame behind that one
	Number    int       // which record of its frame it is, from 1
	Last      bool      // it is the last one there
}

// Error says what is wrong with a record of a frame that is sound: it cannot be decoded, or does not fit the state. The second is a bug,
// of whoever wrote it or of this program.
type Error struct {
	Partition log.PartitionID
	LSN       event.LSN // of the frame
	Number    int       // of the record there, from 1
	Reason    error     // wraps [event.ErrUnknown] where a newer program wrote the record
	// Stack is that of the index's panic where an event does not fit the state; nil where it could not be decoded.
	Stack []byte
}

// Error names the place and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("partition %d: frame %d: record %d: %v", e.Partition, e.LSN, e.Number, e.Reason)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// Records yields the records of a log, from the first frame at or after an LSN up to what is durable when it is called. A record, its
// events and their bytes are valid until the next one. After an error, of [log.Reader.Read] or an [*Error], nothing follows.
func Records(ctx context.Context, r log.Reader, from event.LSN) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) { walk(ctx, r, from, 0, yield) }
}

// walk is [Records], without the first done records of the frame at from.
func walk(ctx context.Context, r log.Reader, from event.LSN, done int, yield func(*Record, error) bool) {
	var dec event.Decoder
	rec := new(Record)
	for f, err := range r.Read(ctx, from) {
		if err != nil {
			yield(nil, err)
			return
		}
		if f.Kind != log.Events {
			continue
		}
		rec.LSN, rec.Next = f.LSN, f.Next
		rest := f.Records
		for n := range int(f.Count) {
			rec.Number, rec.Last = n+1, n+1 == int(f.Count)
			rec.Record, rest, err = dec.Record(f.Base, f.Bodies, rest)
			if err == nil && rec.Last && len(rest) > 0 {
				err = fmt.Errorf("%d bytes follow the last record", len(rest))
			}
			if err != nil {
				yield(nil, rec.wrong(r, err))
				return
			}
			if f.LSN == from && n < done {
				continue
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (rec *Record) wrong(r log.Reader, reason error) *Error {
	return &Error{Partition: r.ID(), LSN: rec.LSN, Number: rec.Number, Reason: reason}
}

// errPanic is what a panic of the index was about.
func errPanic(v any) error {
	if err, ok := v.(error); ok {
		return err
	}
	return errors.New(fmt.Sprint(v))
}
