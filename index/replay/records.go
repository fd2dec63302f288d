package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Record is one decision, with its place in the log.
type Record struct {
	event.Record
	LSN, Next event.LSN // of its frame, and of the next frame
	Number    int       // number of the record in its frame, from 1
	Last      bool      // it is the last one of its frame
}

// Error describes a bad record in a sound frame: it cannot be decoded, or does not fit the state.
// That is a bug of this program or of the one that wrote it, unless that was a newer one.
type Error struct {
	Partition log.PartitionID
	LSN       event.LSN // of the frame
	Number    int       // number of the record in its frame, from 1
	Reason    error     // wraps [event.ErrUnknown] if a newer program wrote the record
	// Stack is the stack of the index's panic if an event does not fit the state; nil if the record
	// could not be decoded.
	Stack []byte
}

// Error names the place and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("partition %d: frame %d: record %d: %v", e.Partition, e.LSN, e.Number, e.Reason)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// Records yields the records of a log, from the first frame at or after an LSN up to the durable
// end at the time of the call. A record, its events and their bytes are valid until the next one.
// After an error, of [log.Reader.Read] or an [*Error], nothing follows.
func Records(ctx context.Context, r log.Reader, from event.LSN) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) { walk(ctx, r, from, 0, yield) }
}

// Found yields the records of the frames in the stretches that a search selects, as [Records] does.
// If the log is not a [log.Finder], it yields those of all frames. They include records that do not
// match the search, which may be most of them.
func Found(ctx context.Context, r log.Reader, s log.Search) iter.Seq2[*Record, error] {
	finder, ok := r.(log.Finder)
	if !ok {
		return Records(ctx, r, 0)
	}
	return func(yield func(*Record, error) bool) {
		stretches, err := finder.Find(s)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, st := range stretches {
			more, left := true, count(st.Events)
			walk(ctx, r, st.From, 0, func(rec *Record, err error) bool {
				if err == nil && rec.LSN >= st.To {
					return false
				}
				more = yield(rec, err) && err == nil
				return more && (st.Events == 0 || err == nil && left.countDown(rec, s.Kinds))
			})
			if !more {
				return
			}
		}
	}
}

// FoundAny does the same as Found for several searches. It yields the frames that any of them
// selects, each frame once, from the first one at or after an LSN.
func FoundAny(ctx context.Context, r log.Reader, from event.LSN, searches []log.Search) iter.Seq2[*Record, error] {
	if len(searches) == 1 && from == 0 {
		return Found(ctx, r, searches[0])
	}
	return (&State{log: r, next: from}).Found(ctx, searches)
}

// count is the number of events still to come.
type count uint64

// countDown subtracts the events of a record, and reports whether any are left.
func (n *count) countDown(rec *Record, kinds []event.Kind) bool {
	for _, ev := range rec.Events {
		if slices.Contains(kinds, ev.Kind()) {
			*n--
		}
	}
	return *n > 0
}

// walk yields the same as [Records], without the first done records of the frame at from.
func walk(ctx context.Context, r log.Reader, from event.LSN, done int, yield func(*Record, error) bool) {
	rd := recordReader{log: r, yield: yield}
	for f, err := range r.Read(ctx, from) {
		more := true
		if err == nil && f.Kind == log.Events {
			skip := 0
			if f.LSN == from {
				skip = done
			}
			more, err = rd.frame(&f, skip)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if !more {
			return
		}
	}
}

// recordReader decodes into one record, repeatedly.
type recordReader struct {
	log   log.Reader
	yield func(*Record, error) bool
	dec   event.Decoder
	rec   Record
}

// frame yields the records of a frame, without the first skip ones. It reports whether more are
// wanted.
func (rd *recordReader) frame(f *log.Frame, skip int) (more bool, err error) {
	rec, rest := &rd.rec, f.Records
	rec.LSN, rec.Next, rec.Number, rec.Last = f.LSN, f.Next, 0, f.Count == 0
	for !rec.Last {
		rec.Number++
		rec.Last = rec.Number == int(f.Count)
		if rec.Record, rest, err = rd.dec.Record(f.Base, f.Bodies, rest); err != nil {
			return false, rec.wrong(rd.log, err)
		}
		if rec.Last && len(rest) > 0 { // before the last record is yielded
			break
		}
		if rec.Number > skip && !rd.yield(rec, nil) {
			return false, nil
		}
	}
	if len(rest) > 0 {
		return false, rec.wrong(rd.log, fmt.Errorf("%d bytes follow the last record", len(rest)))
	}
	return true, nil
}

func (rec *Record) wrong(r log.Reader, reason error) *Error {
	return &Error{Partition: r.ID(), LSN: rec.LSN, Number: rec.Number, Reason: reason}
}

// errPanic returns a panic value of the index as an error.
func errPanic(v any) error {
	if err, ok := v.(error); ok {
		return err
	}
	return errors.New(fmt.Sprint(v))
}
