package settings

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (l *loader) file(name string) {
	src, err := readBounded(name, maxConfigFile)
	if err != nil {
		l.problems.add("", "config file: %v", err)
		return
	}
	root, err := parseYAML(src)
	if err != nil {
		l.problems.add(name, "%s", quotation.ReplaceAllString(err.Error(), "'***'"))
		return
	}
	if root == nil {
		return // an empty file has no settings
	}
	f := &configFile{loader: l, name: name, given: map[string]givenKey{}}
	f.block(root, "")
}

// configFile walks the YAML file. Every complaint names key and line.
type configFile struct {
	*loader
	name  string
	given map[string]givenKey // by the setting's name
}

// givenKey is a key of the file that was read already.
type givenKey struct {
	path string
	line int
}

func (f *configFile) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", f.name, n.Line) }

func (f *configFile) block(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		if prefix == "" {
			f.problems.add(f.at(n), "must be a block of keys")
			return
		}
		f.problems.add(f.at(n), "%s: must be a block with one or more of the keys %s", strings.TrimSuffix(prefix, "."), strings.Join(keysOf(prefix), ", "))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := prefix + key.Value
		name := nestedName(path)
		if f.repeated(key, path, name) {
			continue
		}
		w, known := word(name)
		switch {
		case path == "tls" && value.Kind == yaml.MappingNode:
			f.block(value, "tls.")
		case known:
			f.value(w, path, value)
		case len(keysOf(path+".")) > 0:
			f.block(value, path+".")
		case name == historyPolicies:
			f.policies(value, path)
		case path == accessRules:
			f.access(value, f.at)
			if inlineKeys(value) {
				f.private(key)
			}
		default:
			f.problems.add(f.at(key), "%s: unknown key", path)
		}
	}
}

// repeated complains about a setting that the file gives twice, and notes an old key.
func (f *configFile) repeated(key *yaml.Node, path, name string) bool {
	first, twice := f.given[name]
	switch {
	case !twice:
		f.given[name] = givenKey{path, key.Line}
		if path != name {
			block, inner, _ := strings.Cut(name, ".")
			f.note(Note{Where: f.at(key), Old: path, New: fmt.Sprintf("%s: {%s: ...}", block, inner)})
		}
	case first.path == path:
		f.problems.add(f.at(key), "%s: given twice", path)
	default:
		f.problems.add(f.at(key), "%s: given as %s on line %d already; keep %s", path, first.path, first.line, name)
	}
	return twice
}

// nestedName returns the name of the setting that a key of the file means: the key itself, or the
// key inside a block that has replaced it.
func nestedName(path string) string {
	for _, w := range words {
		if w.flat == path {
			return w.Name
		}
	}
	if path == flatPolicies {
		return historyPolicies
	}
	return path
}

// keysOf returns the keys of a block, whose name and a dot the prefix is.
func keysOf(prefix string) (keys []string) {
	for _, w := range words {
		if key, ok := strings.CutPrefix(w.Name, prefix); ok && w.Fixed == "" {
			keys = append(keys, key)
		}
	}
	if key, ok := strings.CutPrefix(historyPolicies, prefix); ok {
		keys = append(keys, key)
	}
	return keys
}

// private complains if others may read a file that contains keys (reliability.md S31).
func (f *configFile) private(n *yaml.Node) {
	if err := CheckPrivate(f.name); err != nil {
		f.problems.add(f.at(n), "%s: %v", accessRules, err)
	}
}

func (f *configFile) value(w Word, path string, n *yaml.Node) {
	where := f.at(n) + ": " + path
	var values []string
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return // a key without a value is a key not given
	case n.Kind == yaml.ScalarNode:
		values = []string{n.Value}
	case n.Kind == yaml.SequenceNode && w.Shape == Many:
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				f.problems.add(f.at(item)+": "+path, "must be a list of plain values")
				return
			}
			values = append(values, item.Value)
		}
	default:
		f.problems.add(where, "must be a plain value")
		return
	}
	if w.Once {
		f.onceOnly(w, where)
		return
	}
	f.assign(w, values, where)
}
