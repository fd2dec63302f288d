package filter

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxNesting bounds the depth of a JSON body, and so the stack that its validation uses. A deeper
// body counts as no JSON.
const maxNesting = 1000

// bytesPerStep is the number of bytes of an object or array that are looked through in one step of
// an evaluation. So ten members of the largest body can be read, and any of a body of 16 KiB.
const bytesPerStep = 16 << 10

// document is the body of the message for which a condition is evaluated. It is read when the
// condition first asks for a member.
type document struct {
	paths  [][]string // of the members that the condition names
	values []member   // by path, of this body

	text  []byte
	state documentState
}

type documentState uint8

const (
	unread documentState = iota
	isJSON
	notJSON
)

// member is the value of a member.
type member struct {
	value  event.Value // null unless the member is a string, a number, true or false
	exists bool
	known  bool // both are those of this body
}

// add returns the index of a path, which it adds if necessary.
func (d *document) add(path []string) int32 {
	for i, p := range d.paths {
		if equalPaths(p, path) {
			return int32(i)
		}
	}
	d.paths = append(d.paths, path)
	d.values = append(d.values, member{})
	return int32(len(d.paths) - 1)
}

func equalPaths(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// look points the document at a body, which must not change until the next call.
func (d *document) look(text []byte) {
	d.text, d.state = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), unread
	for i := range d.values {
		d.values[i].known = false
	}
}

// member returns the member of a path. Each object or array on the path is read up to its end,
// which costs the machine steps.
func (d *document) member(at int32, by *machine) *member {
	m := &d.values[at]
	if m.known {
		return m
	}
	if d.state == unread {
		d.state = notJSON
		if nestsLittle(d.text) && gjson.ValidBytes(d.text) {
			d.state, d.text = isJSON, skipAny(d.text, ' ')
		}
	}
	m.known, m.exists, m.value = true, false, event.Value{}
	if d.state == notJSON {
		return m
	}
	text := d.text
	for _, name := range d.paths[at] {
		if !by.charge(len(text) / bytesPerStep) {
			return m
		}
		if text = child(text, name); text == nil {
			return m
		}
	}
	m.exists, m.value = true, jsonValue(text)
	return m
}

// nestsLittle reports whether the objects and arrays of a text are nested at most maxNesting deep.
// It takes any text.
func nestsLittle(text []byte) bool {
	// nearly always
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= maxNesting {
		return true
	}
	depth, most := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		}
	}
	return most <= maxNesting
}

// skipAny returns a text without the space, and the separators, that it begins with.
func skipAny(text []byte, separator byte) []byte {
	for i, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n', separator:
		default:
			return text[i:]
		}
	}
	return nil
}

// stringEnd returns the length of the JSON string at the beginning of a text, or that of the text
// if the string does not end.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' { // ends at the opening quote
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return i
		}
	}
	return len(text)
}

// valueEnd returns the length of the value at the beginning of a valid JSON text.
func valueEnd(text []byte) int {
	switch text[0] {
	case '"':
		return stringEnd(text)
	case '{', '[':
		depth := 0
		for i := 0; i < len(text); i++ {
			switch text[i] {
			case '"':
				i += stringEnd(text[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i, c := range text { // a number, true, false or null
		switch c {
		case ',', ']', '}', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return len(text)
}

// child returns the member of an object with a name, or the element of an array with a number; nil:
// there is none. Of members with the same name the last one counts, as in most readers of JSON. The
// text is valid and begins with the object or array.
func child(text []byte, name string) (found []byte) {
	isObject, wanted := text[0] == '{', 0
	if !isObject {
		var err error
		if wanted, err = strconv.Atoi(name); text[0] != '[' || err != nil || strconv.Itoa(wanted) != name {
			return nil
		}
	}
	for text = skipAny(text[1:], ','); text[0] != '}' && text[0] != ']'; text = skipAny(text, ',') {
		isFound := wanted == 0
		if isObject {
			n := stringEnd(text)
			isFound = isKey(text[:n], name)
			text = skipAny(text[n:], ':')
		}
		n := valueEnd(text)
		if isFound {
			found = text[:n:n]
			if !isObject {
				return found
			}
		}
		text = text[n:]
		wanted--
	}
	return found
}

// isKey reports whether a JSON string spells a name.
func isKey(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	return gjson.ParseBytes(quoted).Str == name
}

// jsonValue returns a value of a valid JSON text. An object, an array and null are null.
func jsonValue(text []byte) event.Value {
	switch text[0] {
	case '"':
		if bytes.IndexByte(text, '\\') < 0 {
			return event.Value{Type: event.String, Text: string(text[1 : len(text)-1])}
		}
		return event.Value{Type: event.String, Text: gjson.ParseBytes(text).Str}
	case 't':
		return truthValue(yes)
	case 'f':
		return truthValue(no)
	case '{', '[', 'n':
		return event.Value{}
	}
	return jsonNumber(text)
}

// jsonNumber returns a number: a long if it is an integer of 64 bits, otherwise a decimal, so that
// no digit is lost. One with too many digits for that is a double.
func jsonNumber(text []byte) event.Value {
	const most = 20 // bytes of a long
	if len(text) <= most && !bytes.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return longValue(n)
		}
	}
	return known(event.Value{Type: event.Decimal, Text: string(text)})
}
