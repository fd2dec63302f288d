package document

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Namespaces (management-api.md 1.8).
const (
	atomSpace          = "http://www.w3.org/2005/Atom"
	serviceSpace       = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
	countSpace         = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
	instanceSpace      = "http://www.w3.org/2001/XMLSchema-instance"
	schemaSpace        = "http://www.w3.org/2001/XMLSchema"
	serializationSpace = "http://schemas.microsoft.com/2003/10/Serialization/"
	arraysSpace        = "http://schemas.microsoft.com/2003/10/Serialization/Arrays"
)

// node is an element of a document.
type node struct {
	name     string // without prefix; "" for a foreign namespace, which is ignored
	attrs    []xml.Attr
	text     strings.Builder
	children []*node
	parent   *node
}

// readTree parses a document of UTF-8 within limits. It refuses document types and processing
// instructions, and so every entity except the five of XML itself.
func readTree(data []byte, limits Limits) (*node, error) {
	if len(data) > limits.Bytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(data), limits.Bytes)
	}
	dec := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	var root, at *node
	depth, count := 0, 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%w: %s", ErrMalformed, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth, count = depth+1, count+1
			switch {
			case depth > limits.Depth:
				return nil, fmt.Errorf("%w: elements more than %d deep", ErrTooLarge, limits.Depth)
			case count > limits.Elements:
				return nil, fmt.Errorf("%w: more than %d elements", ErrTooLarge, limits.Elements)
			case at == nil && root != nil:
				return nil, fmt.Errorf("%w: more than one root element", ErrMalformed)
			}
			n := &node{name: localName(t.Name), attrs: t.Copy().Attr, parent: at}
			if at == nil {
				root = n
			} else {
				at.children = append(at.children, n)
			}
			at = n
		case xml.EndElement:
			depth--
			at = at.parent
		case xml.CharData:
			if at != nil {
				at.text.Write(t)
			} else if len(bytes.TrimSpace(t)) > 0 {
				return nil, fmt.Errorf("%w: text outside of the root element", ErrMalformed)
			}
		case xml.Directive:
			return nil, fmt.Errorf("%w: a document type is not allowed", ErrMalformed)
		case xml.ProcInst:
			if t.Target != "xml" || root != nil {
				return nil, fmt.Errorf("%w: a processing instruction is not allowed", ErrMalformed)
			}
		}
	}
	if root == nil {
		return nil, fmt.Errorf("%w: no root element", ErrMalformed)
	}
	return root, nil
}

// localName returns an element's name without its prefix. It also accepts a missing namespace and
// that of an enclosing element, because writers mix them up.
func localName(n xml.Name) string {
	switch n.Space {
	case "", atomSpace, serviceSpace, countSpace, arraysSpace:
		return n.Local
	}
	return ""
}

// child returns the first child with a name that is not nil.
func (n *node) child(name string) *node {
	for _, c := range n.children {
		if c.name == name && !c.isNil() {
			return c
		}
	}
	return nil
}

// isNil reports whether the element is marked as absent.
func (n *node) isNil() bool {
	v, _ := n.instance("nil")
	isNil, ok := parseBool(strings.TrimSpace(v))
	return ok && isNil
}

// instance returns an attribute of XML Schema instances.
func (n *node) instance(name string) (string, bool) {
	for _, a := range n.attrs {
		if a.Name.Space == instanceSpace && a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}

// typeName returns the local part of the element's declared type; "": none is declared.
func (n *node) typeName() string {
	t, _ := n.instance("type")
	t = strings.TrimSpace(t)
	return t[strings.IndexByte(t, ':')+1:]
}

// attr returns an attribute without a namespace.
func (n *node) attr(name string) string {
	for _, a := range n.attrs {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// space returns the namespace of a prefix at an element; "": it is not declared.
func (n *node) space(prefix string) string {
	for ; n != nil; n = n.parent {
		for _, a := range n.attrs {
			if a.Name.Space == "xmlns" && a.Name.Local == prefix {
				return a.Value
			}
		}
	}
	return ""
}

// raw returns an element's text unchanged.
func (n *node) raw() string { return n.text.String() }

// trimmed returns an element's text without white space around it.
func (n *node) trimmed() string { return strings.TrimSpace(n.raw()) }

// find returns the trimmed text of a child; "": there is none.
func (n *node) find(name string) string {
	if c := n.child(name); c != nil {
		return c.trimmed()
	}
	return ""
}
