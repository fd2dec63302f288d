package servicebus

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/test/sas"
)

// decodeAll decodes values in a row.
func decodeAll(b []byte) (all []any) {
	for len(b) > 0 {
		v, rest, err := amqp.DecodeValue(b, amqp.DefaultLimits)
		if err != nil {
			panic(err)
		}
		all, b = append(all, v), rest
	}
	return all
}

// encode encodes values as .NET does: noted without fields have no list, and arrays are long ones.
func encode(values ...any) (b []byte) {
	for _, v := range values {
		b = amqp.AppendValue(b, ids{}.fill(v))
	}
	return b
}

// ids are the values that the recordings shorten, by their first digits.
type ids map[string]any

var shortened = regexp.MustCompile(`[0-9a-f]{8}…`)

// fill returns v with the known parts filled in, in the form for package amqp.
func (ids ids) fill(v any) any {
	list := func(values []any) (all []any) {
		for _, v := range values {
			all = append(all, ids.fill(v))
		}
		return all
	}
	switch v := v.(type) {
	case unknown:
		return ids.guess(v)
	case innerMessage:
		return encode(list(v)...)
	case fieldList:
		if len(v) == 0 {
			return amqp.Opaque{Code: amqp.CodeList0}
		}
		return amqp.List(list(v))
	case amqp.List:
		if len(v) == 0 {
			return amqp.Opaque{Code: amqp.CodeList0}
		}
		return amqp.List(list(v))
	case amqp.Map:
		filled := amqp.Map{}
		for _, p := range v {
			filled = append(filled, amqp.Pair{Key: p.Key, Value: ids.fill(p.Value)})
		}
		return filled
	case amqp.Array:
		b := amqp.AppendValue(nil, amqp.Array{Elem: v.Elem, Values: list(v.Values)})
		if b[0] == amqp.CodeArray32 {
			return amqp.Opaque{Code: b[0], Bytes: b[1:]}
		}
		size := binary.BigEndian.AppendUint32(nil, uint32(len(b)-3+4))
		return amqp.Opaque{Code: amqp.CodeArray32, Bytes: append(binary.BigEndian.AppendUint32(size, uint32(b[2])), b[3:]...)}
	case amqp.Described:
		return amqp.Described{Descriptor: v.Descriptor, Value: ids.fill(v.Value)}
	}
	return v
}

// guess is a value that the client sends, whose text leaves a part open. The client makes up parts
// that are not known yet.
func (ids ids) guess(u unknown) any {
	switch u.kind {
	case 't':
		d, err := time.ParseDuration(u.text + "ms")
		if err != nil {
			panic(err)
		}
		return amqp.Timestamp(time.Now().Add(d).UnixMilli())
	case 's':
		if query, ok := strings.CutPrefix(u.text, "SharedAccessSignature "); ok {
			values, _ := url.ParseQuery(query)
			return sas.Token(values.Get("sr"), "root", "root-key", time.Now().Add(time.Hour))
		}
		return shortened.ReplaceAllStringFunc(u.text, func(short string) string {
			if _, ok := ids[short]; !ok {
				ids[short] = strings.TrimSuffix(short, "…") + "-0000-4000-8000-000000000000"
			}
			return fmt.Sprint(ids[short])
		})
	}
	digits, rest, _ := strings.Cut(u.text, "…")
	known, ok := ids[digits+"…"].(string)
	if !ok {
		size := 16
		fmt.Sscanf(rest, "(%d", &size)
		b, _ := hex.DecodeString(digits)
		known = string(append(b, make([]byte, size-len(b))...))
		ids[digits+"…"] = known
	}
	if u.kind == 'u' {
		return amqp.UUID([]byte(known))
	}
	return []byte(known)
}

// matcher compares a text with decoded values, and learns ids from them.
type matcher struct {
	ids     ids
	exact   bool // also the fields of performatives that the text does not have
	anyTime bool
}

func (m matcher) all(want, got []any) error {
	for i := range want {
		if i >= len(got) {
			return fmt.Errorf("%s is missing", show(want[i]))
		}
		if err := m.match(want[i], got[i]); err != nil {
			return err
		}
	}
	if len(got) > len(want) {
		return fmt.Errorf("%s is not wanted", show(got[len(want)]))
	}
	return nil
}

func (m matcher) match(want, got any) error {
	differ := fmt.Errorf("%s is not %s", show(got), show(want))
	switch want := want.(type) {
	case unknown:
		return m.learn(want, got)
	case innerMessage:
		b, _ := got.([]byte)
		return m.all(want, decodeAll(b))
	case fieldList:
		got, _ := got.(amqp.List)
		for i, w := range want {
			if i < len(got) && (w != nil || m.exact) {
				if err := m.match(w, got[i]); err != nil {
					return err
				}
			} else if w != nil {
				return fmt.Errorf("field %d is missing", i)
			}
		}
		return nil
	case amqp.Described:
		d, ok := got.(amqp.Described)
		if !ok || d.Descriptor != want.Descriptor {
			return differ
		}
		code, _ := want.Descriptor.(uint64)
		m.exact = m.exact || code == 0x70 || code == 0x73 // header and properties
		if err := m.match(want.Value, d.Value); err != nil {
			if c := notedByCode[code]; c != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			return err
		}
		return nil
	case amqp.List:
		got, ok := got.(amqp.List)
		if !ok {
			return differ
		}
		return m.all(want, got)
	case amqp.Array:
		got, ok := got.(amqp.Array)
		if !ok {
			return differ
		}
		return m.all(want.Values, got.Values)
	case amqp.Map:
		got, ok := got.(amqp.Map)
		if !ok || len(got) != len(want) {
			return differ
		}
		for i, p := range want {
			if got[i].Key != p.Key {
				return differ
			}
			if err := m.match(p.Value, got[i].Value); err != nil {
				return fmt.Errorf("%s: %w", show(p.Key), err)
			}
		}
		return nil
	}
	if !cmp.Equal(want, got) && show(want) != show(got) { // NaN
		return differ
	}
	return nil
}

// learn compares a value with one that is open in part.
func (m matcher) learn(want unknown, got any) error {
	differ := fmt.Errorf("%s is not %s", show(got), want.text)
	switch v := got.(type) {
	case amqp.Timestamp:
		d, err := time.ParseDuration(want.text + "ms")
		if want.kind == 't' && err == nil && !m.anyTime && time.UnixMilli(int64(v)).Sub(time.Now().Add(d)).Abs() > time.Second {
			return fmt.Errorf("%v; it is %d", differ, time.Now().UnixMilli())
		}
		if want.kind == 't' || want.kind == '*' {
			return nil
		}
	case string:
		if want.kind == 's' {
			return m.learnText(want.text, v)
		}
	case []byte:
		if want.kind == 'b' {
			return m.learnBytes(want.text, string(v), differ)
		}
	case amqp.UUID:
		if want.kind == 'u' {
			return m.learnBytes(want.text, string(v[:]), differ)
		}
	}
	if want.kind == '*' {
		return nil
	}
	return differ
}

func (m matcher) learnBytes(text, got string, differ error) error {
	short := text[:strings.Index(text, "…")+len("…")]
	if known, ok := m.ids[short]; ok && known != got {
		return differ
	}
	if short != "…" {
		m.ids[short] = got
	}
	return nil
}

func (m matcher) learnText(text, got string) error {
	var names []string
	pattern := shortened.ReplaceAllStringFunc(regexp.QuoteMeta(text), func(short string) string {
		if known, ok := m.ids[short].(string); ok {
			return regexp.QuoteMeta(known)
		}
		names = append(names, short)
		return "(.+)"
	})
	found := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "…", ".*") + "$").FindStringSubmatch(got)
	if found == nil {
		return fmt.Errorf("%q is not %q", got, text)
	}
	for i, name := range names {
		m.ids[name] = found[i+1]
	}
	return nil
}
