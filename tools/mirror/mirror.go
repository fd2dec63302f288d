package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidwall/wal"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// A Head is a source's description of a log before its entries.
type Head struct {
	Namespace  string // id
	Partitions int
	First      uint64 // LSN at which the log begins
}

// A Tail is a source's description after the entries.
type Tail struct {
	Next uint64 // LSN at which to continue
	More bool   // more entries exist
}

// A Source reads a partition of a log: its entries from an LSN on, in order and in the form to
// keep, each a JSON object.
type Source func(ctx context.Context, partition int, from uint64, head func(Head) error, entry func([]byte) error) (Tail, error)

// Options are the settings of a mirror. The zero value of each field means its default.
type Options struct {
	FileBytes int // a file ends with the entry that reaches this size; default 16 MiB
	// retention: files whose last entry is older are deleted; 0: unlimited
	Keep  time.Duration
	Now   func() time.Time // default time.Now
	Notes io.Writer        // gets a line for each torn tail and gap; may be nil
}

const (
	// batchBytes is the size of entries that are synced together. It limits their memory and the
	// amount that a killed mirror must request again.
	batchBytes = 256 << 10
	// saveEvery is the maximum age of the note while entries arrive.
	saveEvery = time.Minute
	noteFile  = "mirror.json"
)

// A note is the mirror's state besides its entries. It is not needed to continue, and may be older
// than the entries.
type note struct {
	Namespace string   `json:"namespace"`
	Next      []uint64 `json:"next"` // by partition: everything below was read
}

// A Mirror is a mirror directory, held exclusively. It belongs to one goroutine.
type Mirror struct {
	dir  string
	o    Options
	lock io.Closer
	note note
	// saved is the note in the file, since savedAt.
	saved   note
	savedAt time.Time
	logs    []*partition
	batch   wal.Batch // kept to reuse its memory
}

// A partition is the log of one partition.
type partition struct {
	id   int
	dir  string
	log  *wal.Log
	next uint64 // LSN at which to continue
	skip int    // number of events of that frame that are already mirrored
}

// ErrOther reports that the broker's log is not the log that was mirrored before.
var ErrOther = errors.New("the mirror belongs to another log")

// Open opens or creates a directory. It cuts off an entry that was incomplete when a mirror was
// killed.
func Open(dir string, o Options) (*Mirror, error) {
	if o.FileBytes == 0 {
		o.FileBytes = 16 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notes == nil {
		o.Notes = io.Discard
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m := &Mirror{dir: dir, o: o}
	var err error
	if m.lock, err = (disk.OS{}).Lock(filepath.Join(dir, "LOCK")); err != nil {
		return nil, err
	}
	src, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err == nil {
		err = json.Unmarshal(src, &m.note)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Join(dir, noteFile), err), m.Close())
	}
	return m, nil
}

// Close releases the directory.
func (m *Mirror) Close() error {
	var errs []error
	if !m.savedAt.IsZero() {
		errs = append(errs, m.save())
	}
	for _, p := range m.logs {
		errs = append(errs, p.log.Close())
	}
	m.logs = nil
	return errors.Join(append(errs, m.lock.Close())...)
}

// open opens the log of the next partition.
func (m *Mirror) open(id int) error {
	dir := filepath.Join(m.dir, fmt.Sprintf("%02d", id))
	cut, err := repair(dir, id)
	if err != nil {
		return err
	}
	if cut > 0 {
		fmt.Fprintf(m.o.Notes, "partition %d: cut off %d bytes of an incomplete entry\n", id, cut)
	}
	l, err := wal.Open(dir, &wal.Options{SegmentSize: m.o.FileBytes, DirPerms: 0o700, FilePerms: 0o600})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	p := &partition{id: id, dir: dir, log: l}
	m.logs = append(m.logs, p)
	return p.find(&m.note)
}

// find determines where to continue: after the last existing event.
func (p *partition) find(n *note) error {
	if p.id < len(n.Next) {
		p.next = n.Next[p.id]
	}
	first, err := p.log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := p.log.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	newest, err := p.entry(last)
	if err != nil {
		return err
	}
	if newest.Event == Gap {
		p.next = max(p.next, newest.To)
		return nil
	}
	if p.next > newest.LSN {
		return nil
	}
	p.next = newest.LSN
	for i := last; i >= first && i > 0; i-- {
		e, err := p.entry(i)
		if err != nil {
			return err
		}
		if e.LSN != newest.LSN || e.Event == Gap {
			break
		}
		p.skip++
	}
	return nil
}

func (p *partition) entry(i uint64) (place, error) {
	data, err := p.log.Read(i)
	if err != nil {
		return place{}, fmt.Errorf("entry %d of partition %d: %w", i, p.id, err)
	}
	e, err := placeOf(data)
	if err != nil {
		err = fmt.Errorf("entry %d of partition %d: %w", i, p.id, err)
	}
	return e, err
}

// Round mirrors all new entries of all partitions. After an error of the source it can be called
// again. [ErrOther] is final.
func (m *Mirror) Round(ctx context.Context, src Source) error {
	all := 1 // until the source reports the number
	for id := 0; id < all; id++ {
		for more := true; more; {
			if id >= len(m.logs) {
				if err := m.open(id); err != nil {
					return err
				}
			}
			m.batch.Clear()
			t := entryAppender{m: m, p: m.logs[id], batch: &m.batch}
			tail, err := src(ctx, id, t.p.next, t.head, t.entry)
			if err == nil {
				err = t.end(tail)
			}
			if err != nil {
				return errors.Join(err, t.flush()) // keep received entries
			}
			more, all = tail.More, t.partitions
		}
	}
	if m.o.Now().Sub(m.savedAt) >= saveEvery {
		if err := m.save(); err != nil {
			return err
		}
	}
	return m.retain()
}

// save rewrites the note.
func (m *Mirror) save() error {
	n := note{Namespace: m.note.Namespace}
	for _, p := range m.logs {
		n.Next = append(n.Next, p.next)
	}
	if n.Namespace == m.saved.Namespace && slices.Equal(n.Next, m.saved.Next) {
		return nil
	}
	// otherwise, after a power loss, the note could cover entries that are lost with their file
	for _, p := range m.logs {
		if err := (disk.OS{}).SyncDir(p.dir); err != nil {
			return err
		}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	m.note = n
	name := filepath.Join(m.dir, noteFile)
	f, err := os.OpenFile(name+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	m.saved, m.savedAt = n, m.o.Now()
	return (disk.OS{}).SyncDir(m.dir)
}

// An entryAppender appends the entries of a partition as they arrive.
type entryAppender struct {
	m          *Mirror
	p          *partition
	partitions int
	batch      *wal.Batch
	bytes      int
	index      uint64 // of the last entry
	// end of the received entries
	at   uint64
	here int // number of events of the frame at
}

func (t *entryAppender) head(h Head) (err error) {
	m, p := t.m, t.p
	if m.note.Namespace == "" {
		m.note.Namespace = h.Namespace
		err = m.save()
	}
	if err != nil {
		return err
	}
	if h.Namespace != m.note.Namespace || h.Partitions < len(m.logs) {
		return fmt.Errorf("%w: namespace %s, not %s", ErrOther, m.note.Namespace, h.Namespace)
	}
	t.partitions, t.at = h.Partitions, p.next
	if t.index, err = p.log.LastIndex(); err != nil || h.First <= p.next || p.next == 0 && t.index == 0 && h.First <= firstLSN {
		return err
	}
	text := fmt.Appendf(nil, `{"Partition":%d,"LSN":%d,"Time":%q,"Event":%q,"From":%d,"To":%d}`, p.id, p.next, m.o.Now().UTC().Format("2006-01-02T15:04:05.000Z"), Gap, p.next, h.First)
	fmt.Fprintf(m.o.Notes, "partition %d: the log from LSN %d to %d was removed before it was mirrored; the mirror contains an entry for the gap\n", p.id, p.next, h.First)
	p.skip, t.at = 0, h.First
	return t.put(text)
}

// firstLSN is the first LSN of a log from which nothing was removed.
const firstLSN = 8

func (t *entryAppender) entry(text []byte) error {
	e, err := placeIn(text)
	switch {
	case err != nil:
		return fmt.Errorf("partition %d: received entry: %w", t.p.id, err)
	case e.Partition != t.p.id || e.LSN < t.at:
		return fmt.Errorf("partition %d: received an event of LSN %d after LSN %d", t.p.id, e.LSN, t.at)
	case e.LSN != t.at:
		t.at, t.here = e.LSN, 0
	}
	t.here++
	if e.LSN == t.p.next && t.here <= t.p.skip { // already mirrored
		return nil
	}
	return t.put(text)
}

// put adds an entry, which the next flush makes durable.
func (t *entryAppender) put(text []byte) error {
	t.index++
	t.batch.Write(t.index, text)
	if t.bytes += len(text); t.bytes < batchBytes {
		return nil
	}
	return t.flush()
}

// flush makes all received entries durable.
func (t *entryAppender) flush() error {
	if t.bytes == 0 {
		return nil
	}
	err := t.p.log.WriteBatch(t.batch)
	if err == nil {
		t.bytes = 0
		t.p.next, t.p.skip = t.at, t.here
	}
	return err
}

// end records where to continue.
func (t *entryAppender) end(tail Tail) error {
	if t.partitions == 0 {
		return errors.New("the source did not identify itself")
	}
	if err := t.flush(); err != nil {
		return err
	}
	if tail.Next < t.p.next || tail.Next == t.p.next && t.p.skip > 0 {
		return fmt.Errorf("%w: partition %d ends at LSN %d but was mirrored up to %d", ErrOther, t.p.id, tail.Next, t.p.next)
	}
	t.p.next, t.p.skip = tail.Next, 0
	return nil
}

// retain deletes whole files whose last entry is older than the retention.
func (m *Mirror) retain() error {
	if m.o.Keep == 0 {
		return nil
	}
	before := m.o.Now().Add(-m.o.Keep)
	for _, p := range m.logs {
		names, err := files(p.dir)
		if err != nil {
			return err
		}
		upTo := uint64(0)
		for _, name := range names[min(1, len(names)):] {
			var first uint64
			_, _ = fmt.Sscanf(name, "%d", &first) // digits, as files says
			e, err := p.entry(first - 1)
			if err != nil {
				return err
			}
			if !e.Time.Before(before) {
				break
			}
			upTo = first
		}
		if last, err := p.log.LastIndex(); upTo == 0 || upTo > last || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := p.log.TruncateFront(upTo); err != nil {
			return err
		}
	}
	return nil
}
