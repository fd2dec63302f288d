package print

import (
	"strconv"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/internal/jsontext"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// sink takes fields in the order in which they are printed. One sink makes an [Object] of them, and
// one appends JSON at once: in both forms an event has the same fields.
type sink interface {
	number(k *key, n uint64)
	flag(k *key, v bool)
	string(k *key, s string)
	quoted(k *key, s *quotedText)
	text(k *key, p []byte) // p is reused
	value(k *key, v any) error
	open(k *key) // an object, whose fields follow
	close(k *key)
}

// key is the name of a field.
type key struct {
	name string
	json string // before the value: a comma, the name, a colon
}

func newKey(name string) key {
	return key{name, "," + string(jsontext.AppendString(nil, name)) + ":"}
}

// quotedText is a text that is printed many times.
type quotedText struct{ text, json string }

// newQuotedText returns a quotedText for a text in UTF-8.
func newQuotedText(s string) *quotedText {
	return &quotedText{s, string(jsontext.AppendString(nil, s))}
}

// objectSink makes an Object.
type objectSink struct {
	list  Object
	outer []Object // of open objects: the fields so far of the object around each
}

func (s *objectSink) number(k *key, n uint64)      { s.list = append(s.list, Uint64(k.name, n)) }
func (s *objectSink) flag(k *key, v bool)          { s.list = append(s.list, Named(k.name, v)) }
func (s *objectSink) text(k *key, p []byte)        { s.list = append(s.list, String(k.name, Text(p))) }
func (s *objectSink) quoted(k *key, v *quotedText) { s.list = append(s.list, String(k.name, v.text)) }

func (s *objectSink) string(k *key, v string) {
	if !utf8.ValidString(v) {
		v = Text([]byte(v))
	}
	s.list = append(s.list, String(k.name, v))
}

func (s *objectSink) value(k *key, v any) error {
	s.list = append(s.list, Named(k.name, v))
	return nil
}

func (s *objectSink) open(*key) { s.outer, s.list = append(s.outer, s.list), Object{} }

func (s *objectSink) close(k *key) {
	last := len(s.outer) - 1
	s.outer, s.list = s.outer[:last], append(s.outer[last], Named(k.name, s.list))
}

// jsonSink appends to an object in JSON.
type jsonSink struct{ dst []byte }

// key appends the name of the next field.
func (s *jsonSink) key(k *key) {
	name := k.json
	if s.dst[len(s.dst)-1] == '{' { // it is the first; no value ends like that
		name = name[1:]
	}
	s.dst = append(s.dst, name...)
}

func (s *jsonSink) number(k *key, n uint64) {
	s.key(k)
	s.dst = strconv.AppendUint(s.dst, n, 10)
}

func (s *jsonSink) flag(k *key, v bool) {
	s.key(k)
	s.dst = strconv.AppendBool(s.dst, v)
}

func (s *jsonSink) string(k *key, v string) {
	s.key(k)
	if !utf8.ValidString(v) {
		v = Text([]byte(v))
	}
	s.dst = jsontext.AppendString(s.dst, v)
}

func (s *jsonSink) quoted(k *key, v *quotedText) {
	s.key(k)
	s.dst = append(s.dst, v.json...)
}

func (s *jsonSink) text(k *key, p []byte) {
	s.key(k)
	if utf8.Valid(p) {
		s.dst = jsontext.AppendString(s.dst, p)
	} else {
		s.dst = jsontext.AppendString(s.dst, Text(p))
	}
}

func (s *jsonSink) value(k *key, v any) (err error) {
	s.key(k)
	s.dst, err = appendJSON(s.dst, v)
	return err
}

func (s *jsonSink) open(k *key) {
	s.key(k)
	s.dst = append(s.dst, '{')
}

func (s *jsonSink) close(*key) { s.dst = append(s.dst, '}') }

// times caches the beginnings of times in words. The times of one log are close together: most are
// in the same minute, or differ by the length of locks and times to live.
type times [11]struct {
	minute event.Time
	text   string // up to the seconds; "": none yet
}

const (
	minute    event.Time = 60_000
	toMinutes            = len("2006-01-02T15:04:")
)

// append appends the result of String for a time.
func (c *times) append(dst []byte, t event.Time) []byte {
	if t <= 0 || t > event.EndOfTime {
		return append(dst, t.String()...)
	}
	of, ms := t/minute, t%minute
	known := &c[of%event.Time(len(c))]
	if known.text == "" || known.minute != of {
		known.minute, known.text = of, t.String()[:toMinutes]
	}
	s := ms / 1000
	ms %= 1000
	dst = append(dst, known.text...)
	return append(dst, byte('0'+s/10), byte('0'+s%10), '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}
