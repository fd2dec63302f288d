package servicebus

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Frames as text, in the notation of the recordings in testdata/dotnet, whose README describes it.

// noted are the described lists of AMQP: name, descriptor and fields in their order. After a colon
// follows the type of a field that is written as a bare word or number: a type as in 5u, x for
// bytes, = for a word that means a number.
var noted, notedByCode = readComposites(`
open 10 container-id hostname max-frame-size:u channel-max:us idle-time-out:u outgoing-locales incoming-locales offered-capabilities desired-capabilities properties
begin 11 remote-channel:us next-outgoing-id:u incoming-window:u outgoing-window:u handle-max:u offered-capabilities desired-capabilities properties
attach 12 name handle:u role:= snd-settle-mode:= rcv-settle-mode:= source target unsettled incomplete-unsettled initial-delivery-count:u max-message-size:ul offered-capabilities desired-capabilities properties
flow 13 next-incoming-id:u incoming-window:u next-outgoing-id:u outgoing-window:u handle:u delivery-count:u link-credit:u available:u drain echo properties
transfer 14 handle:u delivery-id:u delivery-tag:x message-format:u settled more rcv-settle-mode:= state resume aborted batchable
disposition 15 role:= first:u last:u settled state batchable
detach 16 handle:u closed error
end 17 error
close 18 error
error 1d condition description info
received 23 section-number:u section-offset:ul
accepted 24
rejected 25 error
released 26
modified 27 delivery-failed undeliverable-here message-annotations
source 28 address durable:u expiry-policy timeout:u dynamic dynamic-node-properties distribution-mode filter default-outcome outcomes capabilities
target 29 address durable:u expiry-policy timeout:u dynamic dynamic-node-properties capabilities
coordinator 30 capabilities
declare 31 global-id
discharge 32 txn-id fail
declared 33 txn-id
transactional-state 34 txn-id outcome
sasl-mechanisms 40 sasl-server-mechanisms
sasl-init 41 mechanism initial-response hostname
sasl-outcome 44 code:ub additional-data
header 70 durable priority:ub ttl:u first-acquirer delivery-count:u
delivery-annotations 71
message-annotations 72
properties 73 message-id user-id to subject reply-to correlation-id content-type content-encoding absolute-expiry-time creation-time group-id group-sequence:u reply-to-group-id
application-properties 74
data 75
sequence 76
value 77
footer 78`)

// notedWords are the words that mean numbers.
var notedWords = map[string]any{"sender": false, "receiver": true, "unsettled(0)": uint8(0), "settled(1)": uint8(1), "mixed(2)": uint8(2), "first(0)": uint8(0), "second(1)": uint8(1)}

type notedComposite struct {
	name   string
	code   uint64
	fields []string
	bare   []string // meaning of a bare word, by field
}

func readComposites(text string) (byName map[string]*notedComposite, byCode map[uint64]*notedComposite) {
	byName, byCode = map[string]*notedComposite{}, map[uint64]*notedComposite{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		words := strings.Fields(line)
		code, _ := strconv.ParseUint(words[1], 16, 64)
		c := &notedComposite{name: words[0], code: code}
		for _, w := range words[2:] {
			name, bare, _ := strings.Cut(w, ":")
			c.fields, c.bare = append(c.fields, name), append(c.bare, bare)
		}
		byName[c.name], byCode[c.code] = c, c
	}
	return byName, byCode
}

// Values that only the notation has. All others are those of package amqp.
type (
	// unknown is a value that the text leaves open in part, where … stands.
	unknown struct {
		kind byte // s string, b binary, u uuid, t time, * anything
		text string
	}
	// fieldList holds the fields of a composite; fields that are not written are nil.
	fieldList []any
	// innerMessage is a binary that holds an encoded message: its sections.
	innerMessage []any
)

// notation reads values from text. What it cannot read it panics about: scripts are part of the
// tests.
type notation struct {
	text string
	at   int
}

func (n *notation) fail(what string) {
	panic(fmt.Sprintf("%s expected at %.60q", what, n.text[n.at:]))
}

// skip passes a text over, if it is there.
func (n *notation) skip(text string) bool {
	found := strings.HasPrefix(n.text[n.at:], text)
	if found {
		n.at += len(text)
	}
	return found
}

func (n *notation) want(text string) {
	if !n.skip(text) {
		n.fail(text)
	}
}

// until returns the text up to the first of some characters.
func (n *notation) until(ends string) string {
	rest := n.text[n.at:]
	if end := strings.IndexAny(rest, ends); end >= 0 {
		rest = rest[:end]
	}
	n.at += len(rest)
	return rest
}

func (n *notation) blanks() {
	for n.skip(" ") {
	}
}

// frame reads a performative and the sections after it.
func (n *notation) frame() []any {
	c := noted[n.until(" ")]
	if c == nil {
		n.fail("performative")
	}
	n.blanks()
	parts := []any{n.fields(c)}
	if n.skip("| ") {
		parts = append(parts, n.sections()...)
	}
	if n.at < len(n.text) {
		n.fail("end")
	}
	return parts
}

// fields reads the fields of a composite, as far as there are some.
func (n *notation) fields(c *notedComposite) amqp.Described {
	list := make(fieldList, len(c.fields))
	for n.blanks(); n.at < len(n.text) && unicode.IsLower(rune(n.text[n.at])); n.blanks() {
		name := n.until("=")
		n.want("=")
		found := false
		for i, f := range c.fields {
			if f == name {
				list[i], found = n.value(c.bare[i]), true
			}
		}
		if !found {
			n.fail("field of " + c.name + " before")
		}
	}
	return amqp.Described{Descriptor: c.code, Value: list}
}

// sections reads the sections of a message.
func (n *notation) sections() (list []any) {
	for n.blanks(); n.at < len(n.text) && n.text[n.at] != '}' && n.text[n.at] != ']'; n.blanks() {
		name := n.until("={")
		c := noted[name]
		if c == nil {
			n.fail("section")
		}
		d := amqp.Described{Descriptor: c.code}
		switch plain := n.skip("="); {
		case name == "data" && plain:
			if d.Value = n.value(""); isText(d.Value) {
				d.Value = []byte(d.Value.(string))
			}
		case plain:
			d.Value = n.value("")
		case name == "data":
			n.want("{")
			d.Value = innerMessage(n.sections())
			n.want("}")
		case len(c.fields) > 0:
			n.want("{")
			d = n.fields(c)
			n.want("}")
		default:
			d.Value = n.pairs()
		}
		list = append(list, d)
	}
	return list
}

func isText(v any) bool { _, ok := v.(string); return ok }

// pairs reads a map.
func (n *notation) pairs() amqp.Map {
	m := amqp.Map{}
	for n.want("{"); !n.skip("}"); {
		key := n.value("")
		n.want("=")
		m = append(m, amqp.Pair{Key: key, Value: n.value("")})
		n.skip(",")
		n.blanks()
	}
	return m
}

// values reads values up to a closing bracket.
func (n *notation) values() amqp.List {
	list := amqp.List{}
	for !n.skip("]") {
		list = append(list, n.value(""))
		n.skip(",")
		n.blanks()
	}
	return list
}

// value reads a value; bare is the type of a word or number without one.
func (n *notation) value(bare string) any {
	switch rest := n.text[n.at:]; {
	case bare == "x":
		return n.bytes('b')
	case bare == "=":
		word := n.until(" ")
		if v, ok := notedWords[word]; ok {
			return v
		}
		n.fail("known word before")
	case n.skip("…"):
		return unknown{'*', "…"}
	case n.skip("["):
		return n.values()
	case n.skip("array["):
		return arrayOf(n.values())
	case rest[0] == '{':
		return n.pairs()
	case rest[0] == '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			n.fail("string")
		}
		n.at += len(quoted)
		text, _ := strconv.Unquote(quoted)
		if _, length, ok := strings.Cut(text, "…("); ok { // the first character, as often as that
			count, _ := strconv.Atoi(strings.TrimSuffix(length, " characters)"))
			return strings.Repeat(text[:1], count)
		}
		if strings.Contains(text, "…") {
			return unknown{'s', text}
		}
		return text
	case n.skip("bin[encoded message: "):
		m := innerMessage(n.sections())
		n.want("]")
		return m
	case n.skip("bin:"):
		return n.bytes('b')
	case n.skip("uuid:"):
		return n.bytes('u')
	case n.skip("ts:"):
		text := n.until(" ,}])(")
		if n.skip("(") {
			n.until(")")
			n.want(")")
		}
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil && text[0] != '+' {
			return amqp.Timestamp(ms)
		}
		return unknown{'t', text}
	case n.skip("@"):
		d := amqp.Described{}
		if n.skip(":") {
			d.Descriptor = amqp.Symbol(n.until("("))
		} else {
			d.Descriptor, _ = number(n.until("("), "ul")
		}
		n.want("(")
		d.Value = n.value("")
		n.want(")")
		return d
	case n.skip(":"):
		return amqp.Symbol(n.until(" ,=(}])"))
	}
	return n.word(bare)
}

// word reads a number, a constant or a composite.
func (n *notation) word(bare string) any {
	word := n.until(" ,=}])(")
	if n.skip("(") {
		c := noted[word]
		if c == nil {
			n.fail("composite before")
		}
		d := n.fields(c)
		n.want(")")
		return d
	}
	switch word {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	v, err := number(word, bare)
	if err != nil {
		n.fail("value before")
	}
	return v
}

// bytes reads a binary or a uuid. If it is not complete it ends with …, which its length may
// follow.
func (n *notation) bytes(kind byte) any {
	text := n.until(" ,}])(")
	if strings.Contains(text, "…") {
		if n.skip("(") {
			text += "(" + n.until(" ")
			n.until(")")
			n.want(")")
		}
		return unknown{kind, text}
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		n.fail("hexadecimal digits before")
	}
	if kind == 'u' {
		return amqp.UUID(b)
	}
	return b
}

// number reads 5u, -3b, dec128:… and the like.
func number(word, bare string) (any, error) {
	if digits, ok := strings.CutPrefix(word, "dec128:"); ok {
		b, err := hex.DecodeString(digits)
		return amqp.Opaque{Code: 0x94, Bytes: b}, err
	}
	if digits, ok := strings.CutPrefix(word, "char:"); ok {
		c, err := strconv.ParseUint(digits, 16, 32)
		return amqp.Char(c), err
	}
	if word == "nand" {
		return math.Float64frombits(0xfff8000000000000), nil // .NET's
	}
	digits := strings.TrimRight(word, "ubslifd")
	suffix := word[len(digits):]
	if strings.HasPrefix(word, "0x") {
		digits, suffix = word, ""
	}
	if suffix == "" {
		suffix = bare
	}
	switch suffix {
	case "ub", "us", "u", "ul":
		v, err := strconv.ParseUint(digits, 0, map[string]int{"ub": 8, "us": 16, "u": 32, "ul": 64}[suffix])
		return map[string]any{"ub": uint8(v), "us": uint16(v), "u": uint32(v), "ul": v}[suffix], err
	case "b", "s", "i", "l":
		v, err := strconv.ParseInt(digits, 0, map[string]int{"b": 8, "s": 16, "i": 32, "l": 64}[suffix])
		return map[string]any{"b": int8(v), "s": int16(v), "i": int32(v), "l": v}[suffix], err
	case "f":
		v, err := strconv.ParseFloat(digits, 32)
		return float32(v), err
	case "d":
		return strconv.ParseFloat(digits, 64)
	}
	return nil, strconv.ErrSyntax
}

// arrayOf is an array as .NET writes one: with the widest constructor of its type.
func arrayOf(list amqp.List) amqp.Array {
	a := amqp.Array{Values: list, Elem: amqp.CodeNull}
	if len(list) == 0 {
		return a
	}
	switch v := list[0].(type) {
	case amqp.UUID:
		a.Elem = amqp.CodeUUID
	case amqp.Timestamp:
		a.Elem = amqp.CodeTimestamp
	case int32:
		a.Elem = amqp.CodeInt
	case int64:
		a.Elem = amqp.CodeLong
	case string:
		a.Elem = amqp.CodeStr32
	case amqp.Symbol:
		a.Elem = amqp.CodeSym32
	case unknown:
		a.Elem = map[byte]byte{'u': amqp.CodeUUID, 't': amqp.CodeTimestamp}[v.kind]
	}
	return a
}

// show is the notation of a value that was decoded.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case amqp.Symbol:
		return ":" + string(v)
	case []byte:
		return fmt.Sprintf("bin:%x", v)
	case amqp.UUID:
		return fmt.Sprintf("uuid:%x", v[:])
	case amqp.Timestamp:
		return fmt.Sprint("ts:", int64(v))
	case amqp.List:
		return "[" + showAll(v, ", ") + "]"
	case amqp.Array:
		return "array[" + showAll(v.Values, ", ") + "]"
	case amqp.Map:
		var pairs []string
		for _, p := range v {
			pairs = append(pairs, show(p.Key)+"="+show(p.Value))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case amqp.Described:
		code, _ := v.Descriptor.(uint64)
		list, ok := v.Value.(amqp.List)
		if written, is := v.Value.(fieldList); is {
			list, ok = amqp.List(written), true
		}
		c := notedByCode[code]
		if c == nil || !ok && len(c.fields) > 0 {
			return "@" + show(v.Descriptor) + "(" + show(v.Value) + ")"
		} else if !ok {
			return c.name + "=" + show(v.Value)
		}
		var set []string
		for i, f := range list {
			if f != nil && i < len(c.fields) {
				set = append(set, c.fields[i]+"="+show(f))
			}
		}
		return c.name + "(" + strings.Join(set, " ") + ")"
	case amqp.Opaque:
		return fmt.Sprintf("dec128:%x", v.Bytes)
	case unknown:
		return v.text
	case innerMessage:
		return "{" + showAll(v, " ") + "}"
	case bool:
		return fmt.Sprint(v)
	}
	return fmt.Sprint(v) + map[string]string{"uint8": "ub", "uint16": "us", "uint32": "u", "uint64": "ul", "int8": "b", "int16": "s", "int32": "i", "int64": "l", "float32": "f", "float64": "d"}[fmt.Sprintf("%T", v)]
}

func showAll(list []any, between string) string {
	var texts []string
	for _, v := range list {
		texts = append(texts, show(v))
	}
	return strings.Join(texts, between)
}
