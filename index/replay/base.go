package replay

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// This file writes and reads a base (docs/log-format.md 3.3): records of one event each, with a
// length before each.

// maxBaseRecord is the longest record of a base, bytes.
const maxBaseRecord = 1 << 26

// WriteBase writes the records of a base: events that contain a state, as [index.Snapshot.Base]
// yields them. at is the time of the newest event before the base.
func WriteBase(ctx context.Context, events iter.Seq[event.Event], at event.Time, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var record, length []byte
	for ev := range events {
		if err := ctx.Err(); err != nil {
			return err
		}
		if record = event.AppendRecord(record[:0], nil, at, []event.Event{ev}); len(record) > maxBaseRecord {
			return fmt.Errorf("%w: a record of %d bytes", log.ErrInternal, len(record))
		}
		length = binary.AppendUvarint(length[:0], uint64(len(record)))
		if _, err := out.Write(length); err != nil {
			return err
		}
		if _, err := out.Write(record); err != nil {
			return err
		}
	}
	return out.Flush()
}

// readBase makes the state in a base. see, unless nil, is called with each of its events.
func readBase(ctx context.Context, r io.Reader, see func(event.Event)) (x *index.Index, err error) {
	number := 0
	defer func() {
		if v := recover(); v != nil {
			err = errPanic(v)
		}
		if err != nil {
			x, err = nil, fmt.Errorf("record %d of the base: %w", number, err)
		}
	}()
	in := bufio.NewReaderSize(r, 64<<10)
	state := index.Restore()
	var dec event.Decoder
	var buf []byte
	for {
		number++
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return state.Index()
		}
		if err != nil {
			return nil, err
		}
		if n > maxBaseRecord {
			return nil, fmt.Errorf("it has %d bytes", n)
		}
		if buf, err = take(in, buf[:0], int(n)); err != nil {
			return nil, err
		}
		rec, rest, err := dec.Record(0, [2]uint32{}, buf)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%d bytes follow it", len(rest))
		}
		if err != nil {
			return nil, err
		}
		for _, ev := range rec.Events {
			if see != nil {
				see(ev)
			}
			if err := state.Apply(rec.At, ev); err != nil {
				return nil, err
			}
		}
	}
}

// take reads n bytes. It allocates memory only as they arrive, because n may be damaged.
func take(r io.Reader, buf []byte, n int) ([]byte, error) {
	for n > len(buf) {
		at, piece := len(buf), min(n-len(buf), 1<<20)
		buf = append(buf, make([]byte, piece)...)
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return buf, errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
	return buf, nil
}

// loadBase returns the state in the base of a log and its place, or the empty state of a log
// without a base. Its error is an [*Error].
func loadBase(ctx context.Context, r log.Reader, see func(event.Event)) (x *index.Index, at event.LSN, err error) {
	b, ok := r.(log.Bases)
	if !ok {
		return index.New(), 0, nil
	}
	info, ok := b.Base()
	if !ok {
		return index.New(), 0, nil
	}
	in, err := b.OpenBase()
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()
	if x, err = readBase(ctx, in, see); err == nil && info.Encoding == index.EncodingVersion && hashOf(x) != info.Hash {
		err = errors.New("the base yields another state than its header says")
	}
	if err != nil {
		return nil, 0, &Error{Partition: r.ID(), LSN: info.LSN, Reason: err}
	}
	return x, info.LSN, nil
}

// hashOf returns the hash of a state. It needs little memory.
func hashOf(x *index.Index) (sum [sha256.Size]byte) {
	s := x.Snapshot()
	defer s.Close()
	h := sha256.New()
	if _, err := s.Encode(h); err != nil {
		panic(err) // a hash accepts everything
	}
	h.Sum(sum[:0])
	return sum
}
