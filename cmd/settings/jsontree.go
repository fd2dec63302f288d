package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tidwall/jsonc"
)

// maxJSONDepth bounds the nesting of a document; the entity file needs eleven levels.
const maxJSONDepth = 64

// node is a JSON value with its line and path, for messages.
type node struct {
	line  int
	path  string
	value any // nil, bool, string, json.Number, []*node or []member
}

// member is one key of an object, in the order of the file.
type member struct {
	key  string
	line int
	node *node
}

// kind names the JSON type of the node, for messages.
func (n *node) kind() string {
	switch n.value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []*node:
		return "an array"
	default:
		return "an object"
	}
}

// parseJSON reads a JSON document with comments, trailing commas and a byte order mark into a tree.
func parseJSON(src []byte) (*node, *Problem) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	src = jsonc.ToJSON(src) // does not move any byte
	p := jsonParser{src: src, dec: json.NewDecoder(bytes.NewReader(src))}
	p.dec.UseNumber()
	root, err := p.value("", 0)
	if err == nil {
		if _, err = p.dec.Token(); err == io.EOF {
			return root, nil
		} else if err == nil {
			err = errors.New("more text after the document's end")
		}
	}
	at := p.dec.InputOffset()
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at, err = int64(len(src)), errors.New("the document ends too early")
	}
	return nil, &Problem{Where: strconv.Itoa(p.lineAt(at)), Text: fmt.Sprintf("not valid JSON: %v", err)}
}

type jsonParser struct {
	src  []byte
	dec  *json.Decoder
	at   int64 // byte up to which line has been counted
	line int   // lines before at
}

// lineAt returns the line of a byte. Callers ask for offsets in increasing order, so it looks at
// each byte once.
func (p *jsonParser) lineAt(offset int64) int {
	offset = min(offset, int64(len(p.src)))
	if offset > p.at {
		p.line += bytes.Count(p.src[p.at:offset], []byte{'\n'})
		p.at = offset
	}
	return p.line + 1
}

func (p *jsonParser) value(path string, depth int) (*node, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxJSONDepth)
	}
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{line: p.lineAt(p.dec.InputOffset()), path: path, value: token}
	switch token {
	case json.Delim('['):
		items := []*node{}
		for p.dec.More() {
			item, err := p.value(fmt.Sprintf("%s[%d]", path, len(items)), depth+1)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		n.value = items
		_, err = p.dec.Token()
	case json.Delim('{'):
		members := []member{}
		for p.dec.More() {
			token, err := p.dec.Token()
			if err != nil {
				return nil, err
			}
			key, ok := token.(string)
			if !ok {
				return nil, errors.New("an object's key must be a string")
			}
			m := member{key: key, line: p.lineAt(p.dec.InputOffset())}
			if m.node, err = p.value(join(path, key), depth+1); err != nil {
				return nil, err
			}
			members = append(members, m)
		}
		n.value = members
		_, err = p.dec.Token()
	}
	return n, err
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
