package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Source has the logs of a namespace. A [log.Store] is one.
type Source interface {
	Partitions() []log.PartitionID
	Open(ctx context.Context, id log.PartitionID) (log.Partition, error)
}

// Ledger answers questions about a [Source]. It belongs to one goroutine.
type Ledger struct {
	src   Source
	tell  Tell
	names *names // nil: not read yet
	// memory is for a source that answers many questions; nil: there is none.
	memory *Memory
	books  map[log.PartitionID]*book
	// of the latest row; its memory is reused
	text   []byte
	fields print.Object
}

// Tell is called with each line of an answer. The fields of the line are reused when it has
// returned. If it returns an error the answer ends with that error.
type Tell func(Line) error

// New returns a Ledger that reads a source and passes its answers to tell.
func New(src Source, tell Tell) *Ledger {
	return &Ledger{src: src, tell: tell, books: make(map[log.PartitionID]*book)}
}

// Line is one line of an answer.
type Line struct {
	Part   Part
	Text   string // for people, in one line; "" only in rows of [Ledger.Log]
	Fields print.Object
	json   []byte // Fields as JSON, if a row is told only in JSON
}

// AppendJSON appends the fields of the line as one object in ASCII.
func (l *Line) AppendJSON(dst []byte) ([]byte, error) {
	if l.json != nil {
		return append(dst, l.json...), nil
	}
	return l.Fields.AppendJSON(dst)
}

// Part is the role of a line in its answer.
type Part int

const (
	Answer Part = iota // the result
	// the evidence: rows of one answer have the same columns, some of which a row may lack
	Row
	Note // something that the answer lacks, and why: removed history, a refused log
	Next // commands to type next
)

// String returns the word for the part in JSON.
func (p Part) String() string { return [...]string{"answer", "row", "note", "next"}[p] }

var (
	// ErrQuestion is wrapped by errors about an invalid question, such as one with a misspelt word.
	ErrQuestion = errors.New("invalid question")
	// ErrNothing is wrapped by errors about something that history does not have.
	ErrNothing = errors.New("nothing is known")
)

func (l *Ledger) answer(fields print.Object, format string, args ...any) error {
	return l.tell(Line{Part: Answer, Text: fmt.Sprintf(format, args...), Fields: fields})
}

func (l *Ledger) note(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return l.tell(Line{Part: Note, Text: text, Fields: print.Object{print.Named("Text", text)}})
}

// unread tells that an answer has nothing from a log, because it cannot be read. The answer
// continues, and ends with that error: a missing part must not look like something that did not
// happen.
func (l *Ledger) unread(id log.PartitionID, err error) error {
	return l.note("partition %d cannot be read and is missing from this answer: %s", id, word(err.Error()))
}

// next ends an answer with commands to type next.
func (l *Ledger) next(commands ...string) error {
	for _, c := range commands {
		if err := l.tell(Line{Part: Next, Text: "next: " + c, Fields: print.Object{print.Named("Command", c)}}); err != nil {
			return err
		}
	}
	return nil
}

// book is one log of the source.
type book struct {
	log.Partition
	log.Finder // reads the whole log if it has no indexes
	log.Bases  // without it the state would begin empty if the log begins with a base
	origins    print.Origins
	known      map[event.OriginID]bool   // origins that were looked up or found
	names      map[event.OriginID]string // results of who
	// where the history begins; zero: unknown, or with the first frame
	begins tick
	base   event.LSN  // of the base that begins comes from
	clocks []clockSet // nil: not looked up yet
	// the latest time and text of stamp
	at            event.Time
	lsn           event.LSN
	atText, place string
}

// gone returns the error for a log that now begins after the LSN from which it was to be read: the
// removed part must not be skipped silently.
func (b *book) gone(from event.LSN) error {
	if first, _ := b.Bounds(); first > from {
		return fmt.Errorf("%w: partition %d: from LSN %d up to %d", log.ErrGone, b.ID(), from, first)
	}
	return nil
}

// stamp returns when and where the events of a record happened, as text. A record has many events,
// and so has a millisecond.
func (b *book) stamp(rec *replay.Record) (at, place string) {
	if b.at != rec.At || b.atText == "" {
		b.at, b.atText = rec.At, rec.At.String()
	}
	if b.lsn != rec.LSN || b.place == "" {
		b.lsn, b.place = rec.LSN, address.At(b.ID(), rec.LSN).String()
	}
	return b.atText, b.place
}

// see notes an origin that an event defines.
func (b *book) see(ev event.Event) {
	if o, ok := ev.(*event.OriginDefined); ok {
		b.known[o.ID] = true
		b.origins.Define(o)
		delete(b.names, o.ID)
	}
}

// learn finds the definitions of some origins. It reads nothing if they are known.
func (b *book) learn(ctx context.Context, ids ...event.OriginID) error {
	var missing []event.OriginID
	for _, id := range ids {
		if id != 0 && !b.known[id] {
			missing = append(missing, id)
			b.known[id] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return b.find(ctx, missing)
}

// find reads the definitions of some origins.
func (b *book) find(ctx context.Context, missing []event.OriginID) error {
	for rec, err := range replay.Found(ctx, b, log.Search{Origins: missing}) {
		if err != nil {
			return err
		}
		for _, ev := range rec.Events {
			b.see(ev)
		}
	}
	return nil
}

// who returns a short name for the origin of an event; "" is the broker itself.
func (b *book) who(id event.OriginID) string {
	if id == 0 {
		return ""
	}
	name, ok := b.names[id]
	if !ok {
		name = b.describe(id)
		b.names[id] = name
	}
	return name
}

// describe returns a description that begins with the name of the key, the only proven part: app
// (worker-1) at 10.0.4.17:50412 azsdk-go.
func (b *book) describe(id event.OriginID) string {
	o := b.origins.Get(id)
	var words []string
	if o.Principal != "" {
		words = append(words, word(o.Principal))
	}
	// in parentheses: a name that a client chose must not look like a key
	if o.ContainerID != "" {
		words = append(words, "("+short(o.ContainerID)+")")
	}
	if o.RemoteAddress != "" {
		words = append(words, "at "+word(o.RemoteAddress))
	}
	if o.Product != "" {
		words = append(words, word(o.Product))
	}
	if len(words) == 0 {
		return fmt.Sprintf("origin %d", id)
	}
	return strings.Join(words, " ")
}

// book opens a log, once.
func (l *Ledger) book(ctx context.Context, id log.PartitionID) (*book, error) {
	if b := l.books[id]; b != nil {
		return b, nil
	}
	p, err := l.src.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	b := &book{Partition: p, Finder: finder(p), Bases: bases(p), known: make(map[event.OriginID]bool), names: make(map[event.OriginID]string)}
	l.books[id] = b
	return b, nil
}

// short returns the beginning of a container's id, long enough to distinguish it: most programs
// generate a long one.
func short(id string) string {
	const enough = 24 // bytes
	if len(id) > enough {
		return word(id[:12]) + "…"
	}
	return word(id)
}

// quote returns a text of a client in a form that is safe to show.
func quote[T string | []byte](text T) string {
	s := string(print.Object{print.Named("", string(text))}.AppendText(nil))
	return s[2:] // after the equals sign of a field without a name
}

// word returns a text of a client in a form that is safe to show, without quotes if it is clear
// without them.
func word[T string | []byte](text T) string { return string(appendWord(nil, text)) }

func appendWord[T string | []byte](dst []byte, text T) []byte {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return append(dst, quote(text)...)
		}
	}
	if len(text) == 0 {
		return append(dst, `""`...)
	}
	return append(dst, text...)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped returns a number with commas between thousands.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span returns a duration in words that a person reads at a glance.
func span(d time.Duration) string { return string(appendSpan(nil, d)) }

func appendSpan(dst []byte, d time.Duration) []byte {
	switch {
	case d < 0:
		return appendSpan(append(dst, '-'), -d)
	case d < time.Second:
		return append(strconv.AppendInt(dst, d.Milliseconds(), 10), " ms"...)
	case d < 100*time.Second:
		return append(strconv.AppendFloat(dst, d.Seconds(), 'f', 1, 64), " s"...)
	}
	return append(dst, d.Round(time.Second).String()...)
}

// all is a log without indexes.
type all struct{ log.Partition }

// Find implements [log.Finder].
func (a all) Find(log.Search) ([]log.Stretch, error) {
	first, end := a.Bounds()
	return []log.Stretch{{From: first, To: end}}, nil
}

func finder(p log.Partition) log.Finder {
	if f, ok := p.(log.Finder); ok {
		return f
	}
	return all{p}
}

// noBase is a log that begins with its first frame.
type noBase struct{ log.Bases }

// Base implements [log.Bases].
func (noBase) Base() (log.BaseInfo, bool) { return log.BaseInfo{}, false }

func bases(p log.Partition) log.Bases {
	if b, ok := p.(log.Bases); ok {
		return b
	}
	return noBase{}
}

func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + more
}
