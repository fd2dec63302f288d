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
	// memory is for a source that is asked again and again; nil: there is none.
	memory *Memory
	books  map[log.PartitionID]*book
	// of the row made last; their memory is used again
	text   []byte
	fields print.Object
}

// Tell is called with each line of an answer, whose fields are used again when it has returned. If
// it returns an error the answer ends, and the error is returned.
type Tell func(Line) error

// New returns a Ledger that asks a source, and gives its answers to tell.
func New(src Source, tell Tell) *Ledger {
	return &Ledger{src: src, tell: tell, books: make(map[log.PartitionID]*book)}
}

// Line is one line of an answer.
type Line struct {
	Part   Part
	Text   string // for people, in one line; "" in rows of [Ledger.Log] alone
	Fields print.Object
	json   []byte // what Fields would be as JSON, where a row is told in JSON alone
}

// AppendJSON appends the fields of the line as one object in ASCII.
func (l *Line) AppendJSON(dst []byte) ([]byte, error) {
	if l.json != nil {
		return append(dst, l.json...), nil
	}
	return l.Fields.AppendJSON(dst)
}

// Part is what a line is of its answer.
type Part int

const (
	Answer Part = iota // what is the case
	// the evidence: rows of one answer have the same columns, some of which a row may lack
	Row
	Note // what is not said, and why: history that is gone, a log that is refused
	Next // what to type next
)

// String is the word for the part in JSON.
func (p Part) String() string { return [...]string{"answer", "row", "note", "next"}[p] }

var (
	// ErrQuestion is wrapped by errors about a question that makes no sense, such as one with a
	// word that is misspelt.
	ErrQuestion = errors.New("invalid question")
	// ErrNothing is wrapped by errors about what history does not have.
	ErrNothing = errors.New("nothing is known")
)

func (l *Ledger) answer(fields print.Object, format string, args ...any) error {
	return l.tell(Line{Part: Answer, Text: fmt.Sprintf(format, args...), Fields: fields})
}

func (l *Ledger) note(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return l.tell(Line{Part: Note, Text: text, Fields: print.Object{print.Named("Text", text)}})
}

// unread says that an answer has nothing of a log, which cannot be read. The answer goes on, and
// ends with that error: what is not there must not be taken for what did not happen.
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
	log.Finder // looks at everything where the log has no indexes
	log.Bases  // without it the state would begin empty where the log begins with a base
	origins    print.Origins
	known      map[event.OriginID]bool   // that were looked for, or come across
	names      map[event.OriginID]string // that who has given
	// what is there of it; zero: not known, or with the first frame
	begins tick
	clocks []clockSet // nil: not looked up yet
	// what stamp said last
	at            event.Time
	lsn           event.LSN
	atText, place string
}

// gone is the error for a log that begins behind an LSN by now, from which on it was to be read:
// what was removed in between must not be passed over.
func (b *book) gone(from event.LSN) error {
	if first, _ := b.Bounds(); first > from {
		return fmt.Errorf("%w: partition %d: from LSN %d up to %d", log.ErrGone, b.ID(), from, first)
	}
	return nil
}

// stamp is when and where the events of a record happened, as text. A record has many, and so has a
// millisecond.
func (b *book) stamp(rec *replay.Record) (at, place string) {
	if b.at != rec.At || b.atText == "" {
		b.at, b.atText = rec.At, rec.At.String()
	}
	if b.lsn != rec.LSN || b.place == "" {
		b.lsn, b.place = rec.LSN, address.At(b.ID(), rec.LSN).String()
	}
	return b.atText, b.place
}

// see notes who is who, if an event says so.
func (b *book) see(ev event.Event) {
	if o, ok := ev.(*event.OriginDefined); ok {
		b.known[o.ID] = true
		b.origins.Define(o)
		delete(b.names, o.ID)
	}
}

// learn finds out who some origins are. It reads nothing where they have been come across.
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

// find reads who some origins are.
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

// who names the origin of an event, in few words; "" is the broker itself.
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

// describe begins with the name of the key, the one thing in it that was proved: app (worker-1) at
// 10.0.4.17:50412 azsdk-go.
func (b *book) describe(id event.OriginID) string {
	o := b.origins.Get(id)
	var words []string
	if o.Principal != "" {
		words = append(words, word(o.Principal))
	}
	// in parentheses: what a client calls itself must not be taken for a key
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

// short is the beginning of a container's id, which tells it from others: most programs make up a
// long one.
func short(id string) string {
	const enough = 24 // bytes
	if len(id) > enough {
		return word(id[:12]) + "…"
	}
	return word(id)
}

// quote is a text of a client as it can be shown.
func quote[T string | []byte](text T) string {
	s := string(print.Object{print.Named("", string(text))}.AppendText(nil))
	return s[2:] // behind the equals sign of a field without a name
}

// word is a text of a client as it can be shown, without quotes where it is clear that way.
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

// grouped is a number with commas between thousands.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span is a duration in words a person reads at a glance.
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
