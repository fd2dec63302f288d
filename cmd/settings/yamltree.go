package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxAliased bounds the values that a file may have in addition to its bytes: aliases can expand a
// small file to many values.
const maxAliased = 1 << 19

// yamlLine matches the beginning of a message of the YAML reader.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseYAMLTree reads a YAML document into a tree like that of parseJSON.
func parseYAMLTree(src []byte) (*node, *Problem) {
	root, err := parseYAML(src)
	if err != nil {
		text := err.Error()
		at := yamlLine.FindStringSubmatch(text)
		if at == nil {
			return nil, &Problem{Text: text}
		}
		return nil, &Problem{Where: at[1], Text: "not valid YAML: " + quotation.ReplaceAllString(text[len(at[0]):], "'***'")}
	}
	if root == nil {
		return nil, &Problem{Where: "1", Text: "the file has no document"}
	}
	t := yamlTree{left: len(src) + maxAliased}
	n, line, err := t.value(root, "", 0)
	if err != nil {
		return nil, &Problem{Where: strconv.Itoa(line), Text: err.Error()}
	}
	return n, nil
}

type yamlTree struct{ left int } // values that may still follow

// value converts a node. It returns the line of an error.
func (t *yamlTree) value(y *yaml.Node, path string, depth int) (n *node, line int, err error) {
	if t.left--; t.left < 0 {
		return nil, y.Line, fmt.Errorf("aliases expand to more than %d values", maxAliased)
	}
	if depth > maxJSONDepth {
		return nil, y.Line, fmt.Errorf("nested deeper than %d levels", maxJSONDepth)
	}
	n = &node{line: y.Line, path: path}
	switch y.Kind {
	case yaml.AliasNode:
		return t.value(y.Alias, path, depth+1)
	case yaml.SequenceNode:
		items := []*node{}
		for _, child := range y.Content {
			item, line, err := t.value(child, fmt.Sprintf("%s[%d]", path, len(items)), depth+1)
			if err != nil {
				return nil, line, err
			}
			items = append(items, item)
		}
		n.value = items
	case yaml.MappingNode:
		members := []member{}
		for i := 0; i+1 < len(y.Content); i += 2 {
			key := y.Content[i]
			if key.Kind != yaml.ScalarNode {
				return nil, key.Line, fmt.Errorf("an object's key must be a string")
			}
			item, line, err := t.value(y.Content[i+1], join(path, key.Value), depth+1)
			if err != nil {
				return nil, line, err
			}
			members = append(members, member{key: key.Value, line: key.Line, node: item})
		}
		n.value = members
	default:
		n.value, err = yamlScalar(y)
	}
	return n, y.Line, err
}

// yamlScalar returns a scalar as JSON would have it. A type that JSON does not have, such as a
// time, is a string.
func yamlScalar(y *yaml.Node) (any, error) {
	switch y.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := y.Decode(&b)
		return b, err
	case "!!int":
		var i int64
		if err := y.Decode(&i); err != nil {
			// it is too large; the reader of a number reports that
			return json.Number(y.Value), nil
		}
		return json.Number(strconv.FormatInt(i, 10)), nil
	case "!!float":
		var f float64
		if err := y.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%s is not a number", y.Value)
		}
		return number(f), nil
	case "!!str", "!!timestamp", "!!merge":
		return y.Value, nil
	}
	return nil, fmt.Errorf("a value with the tag %s is not supported", y.ShortTag())
}
