package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Options select the exported data and its destination.
type Options struct {
	Dir      string // is created, or must be empty
	Format   Format
	Range    ledger.Range
	Bodies   bool             // include bodies in the table of messages
	Partial  bool             // skip unreadable parts and list them in the summary
	Progress func(events int) // called occasionally with the number of events processed; may be nil
}

// A Summary describes an export. It is written to export.json, the last file. If that file exists,
// all other files are complete, except for the parts in Missing.
type Summary struct {
	Tables     int              `json:"tables"` // see [TablesVersion]
	Format     Format           `json:"format"`
	Partitions []Part           `json:"partitions"`
	Missing    []missingLog     `json:"missing"` // empty without [Options.Partial]
	Rows       map[string]int64 `json:"rows"`    // by table
}

// A missingLog is a log that could not be read completely.
type missingLog struct {
	Partition int    `json:"partition"`
	From      uint64 `json:"from"` // LSN before which everything was read; 0: nothing was read
	Error     string `json:"error"`
}

// A Part is the part of a log that was read.
type Part struct {
	Partition int    `json:"partition"`
	First     uint64 `json:"first"` // LSN at which its history begins
	End       uint64 `json:"end"`   // LSN up to which it was read
}

// TablesVersion is the version of the tables. A new column does not change it; a removed column or
// a new meaning does.
const TablesVersion = 1

// ErrNotEmpty reports that the directory is not empty; it may contain an interrupted export.
// Nothing was written.
var ErrNotEmpty = errors.New("is not empty: an export needs an empty directory; remove an interrupted export and start again")

// Export writes the tables of a source. tell gets notes about missing data. If the directory is not
// empty, the error is [ErrNotEmpty]. A log that cannot be read completely is an error, a
// [*log.CorruptError], unless [Options.Partial] is set. After any error other than ErrNotEmpty the
// files keep their temporary names, and export.json does not exist.
func Export(ctx context.Context, src ledger.Source, tell ledger.Tell, o Options) (s Summary, err error) {
	l := ledger.New(src, tell)
	sel, err := l.Select(ctx, o.Range)
	if err != nil {
		return s, err
	}
	s = Summary{Tables: TablesVersion, Format: o.Format, Missing: []missingLog{}}
	for _, id := range slices.Sorted(maps.Keys(sel.Missing())) {
		if err := s.addMissing(tell, o.Partial, id, 0, sel.Missing()[id]); err != nil {
			return s, err
		}
	}
	if err := emptyDir(o.Dir); err != nil {
		return s, err
	}
	x, err := newExporter(o, sel)
	if err != nil {
		return s, err
	}
	for _, id := range sel.Partitions() {
		p, err := src.Open(ctx, id)
		if err == nil {
			first, end := p.Bounds()
			if err = x.partition(ctx, p); err != nil {
				end = max(first, x.at)
				err = s.addMissing(tell, o.Partial, id, end, err)
			}
			s.Partitions = append(s.Partitions, Part{int(id), uint64(first), uint64(end)})
		}
		if err != nil {
			x.abandon()
			return s, err
		}
	}
	if err := x.close(); err != nil {
		return s, err
	}
	s.Rows = map[string]int64{"events": x.events.count, "messages": x.messages.count, "locks": x.locks.count, "sessions": x.sessions.count, "origins": x.origins.count}
	return s, writeSummary(o.Dir, s)
}

// addMissing records that a log cannot be read from an LSN on (0: at all) if may is true; otherwise
// it returns the error.
func (s *Summary) addMissing(tell ledger.Tell, may bool, id log.PartitionID, from event.LSN, err error) error {
	if c := (*log.CorruptError)(nil); !errors.As(err, &c) {
		return err
	}
	if !may {
		return fmt.Errorf("%w; use --partial to skip unreadable parts", err)
	}
	s.Missing = append(s.Missing, missingLog{int(id), uint64(from), err.Error()})
	what := "all of it is"
	if from != 0 {
		what = fmt.Sprintf("everything from LSN %d on is", from)
	}
	return tell(ledger.Line{Part: ledger.Note, Text: fmt.Sprintf("partition %d is unreadable; %s missing from the tables: %v", id, what, err)})
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return os.Mkdir(dir, 0o700)
	}
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s %w", dir, ErrNotEmpty)
	}
	return err
}

func writeSummary(dir string, s Summary) error {
	p, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "export.json")
	f, err := os.OpenFile(name+partName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(p, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(name+partName, name)
}

// An exporter makes rows of events.
type exporter struct {
	Options
	sel      *ledger.Selection
	events   *table[eventRow]
	messages *table[messageRow]
	locks    *table[lockRow]
	sessions *table[sessionRow]
	origins  *table[originRow]

	// of the current log:

	part     log.Partition
	id       int32
	at       event.LSN               // of the current frame
	known    map[event.OriginID]bool // origins that have a row
	paths    map[event.EntityID]string
	open     map[message]lockRow    // locks
	held     map[session]sessionRow // sessions
	body     []byte
	row      eventRow
	progress int
}

// A message identifies a message in a log, and a session a session.
type message struct {
	slice  event.Slice
	number event.SequenceNumber
}

type session struct {
	slice event.Slice
	id    string
}

func newExporter(o Options, sel *ledger.Selection) (*exporter, error) {
	x := &exporter{Options: o, sel: sel}
	var errs [5]error
	x.events, errs[0] = newTable[eventRow](o.Dir, "events", o.Format)
	x.messages, errs[1] = newTable[messageRow](o.Dir, "messages", o.Format)
	x.locks, errs[2] = newTable[lockRow](o.Dir, "locks", o.Format)
	x.sessions, errs[3] = newTable[sessionRow](o.Dir, "sessions", o.Format)
	x.origins, errs[4] = newTable[originRow](o.Dir, "origins", o.Format)
	return x, errors.Join(errs[:]...)
}

func (x *exporter) close() error {
	return errors.Join(x.events.close(), x.messages.close(), x.locks.close(), x.sessions.close(), x.origins.close())
}

func (x *exporter) abandon() {
	x.events.abandon()
	x.messages.abandon()
	x.locks.abandon()
	x.sessions.abandon()
	x.origins.abandon()
}

const progressEvery = 1 << 14 // events

// partition exports a log. If the log cannot be read to its end, the tables contain the part before
// the unreadable place.
func (x *exporter) partition(ctx context.Context, p log.Partition) error {
	x.part, x.id, x.at = p, int32(p.ID()), 0
	x.known, x.paths = make(map[event.OriginID]bool), make(map[event.EntityID]string)
	x.open, x.held = make(map[message]lockRow), make(map[session]sessionRow)
	broken := x.records(ctx, p)
	for _, row := range x.open { // still locked
		if err := x.locks.add(row, rowBytes); err != nil {
			return errors.Join(broken, err)
		}
	}
	for _, row := range x.held {
		if err := x.sessions.add(row, rowBytes+len(row.SessionID)); err != nil {
			return errors.Join(broken, err)
		}
	}
	return broken
}

// records makes the rows of all events of a log.
func (x *exporter) records(ctx context.Context, p log.Partition) error {
	for rec, err := range x.sel.Records(ctx, p.ID()) {
		if err != nil {
			return err
		}
		x.at = rec.LSN
		for i, ev := range rec.Events {
			ok, err := x.sel.Wants(ctx, p.ID(), rec, i)
			if err == nil && ok {
				x.row = eventRow{Partition: x.id, LSN: int64(rec.LSN), Record: int32(rec.Number), Position: int32(i + 1), At: int64(rec.At)}
				err = x.event(ctx, rec.At, ev)
			}
			if err != nil {
				return err
			}
		}
		if x.progress += len(rec.Events); x.progress >= progressEvery && x.Progress != nil {
			x.Progress(x.progress)
			x.progress = 0
		}
	}
	return nil
}

// origin makes the row of an origin once.
func (x *exporter) origin(ctx context.Context, id event.OriginID) error {
	if id == 0 || x.known[id] {
		return nil
	}
	x.known[id] = true
	o, err := x.sel.Origin(ctx, x.part.ID(), id)
	if err != nil || o == (event.Origin{}) {
		return err
	}
	return x.origins.add(originRow{Partition: x.id, ID: int64(id), Connection: int64(o.Connection), RemoteAddress: text(o.RemoteAddress), ContainerID: text(o.ContainerID),
		Product: text(o.Product), Principal: text(o.Principal), Link: text(o.Link), Entity: text(o.Entity)}, rowBytes)
}

// path returns the path of an entity.
func (x *exporter) path(id event.EntityID) string {
	if id == 0 {
		return ""
	}
	p, ok := x.paths[id]
	if !ok {
		p = x.sel.Path(id)
		x.paths[id] = p
	}
	return p
}
