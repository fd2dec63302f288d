package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	accessRules   = "access-rules"
	maxConfigFile = 1 << 20
	maxKeyFile    = 4 << 10
)

// quoted finds what an error of the YAML reader quotes from the file: it may be a key.
var quoted = regexp.MustCompile(`'[^']{2,}'`)

// Sources is where settings come from.
type Sources struct {
	// YAML file; "": none. Paths in it are relative to the working directory.
	File  string
	Env   func(string) (string, bool) // [os.LookupEnv]; nil: none
	Flags map[string][]string         // values given as flags, by the word's name
}

// Load merges flags, environment, file and defaults, in this order of precedence, checks the result
// and reads the entity file. Its error is a [Problems] with everything that is wrong.
//
// Environment variables that begin with LEDGERBUS_ and are no word of ours are left alone: a
// container platform makes some up from the service's name.
func Load(from Sources) (Settings, error) {
	l := gather(from)
	l.finish()
	if err := l.problems.err(); err != nil {
		return Settings{}, err
	}
	return l.settings, nil
}

// gather merges the sources and checks nothing that needs more than one value.
func gather(from Sources) *loader {
	l := &loader{settings: defaults(), origin: map[string]string{}}
	if from.File != "" {
		l.file(from.File)
	}
	if from.Env != nil {
		l.environment(from.Env)
	}
	for _, w := range words {
		if values := from.Flags[w.Name]; len(values) > 0 {
			l.assign(w, values, "--"+w.Flag())
		}
	}
	return l
}

// loader collects values and problems. A later assignment wins; what is wrong in an earlier, lower
// source is still reported.
type loader struct {
	settings Settings
	origin   map[string]string // by word: where its value came from
	problems Problems
	inline   inlineFile // entities in the environment
	present  string     // an entity file that need not exist, "": none
	httpPort string     // in place of the emulator's HTTP port, "": as it is
}

func (l *loader) assign(w Word, values []string, where string) {
	if err := w.set(&l.settings, values); err != nil {
		l.problems.add(where, "%v", err)
	}
	l.origin[w.Name] = where
}

func (l *loader) environment(lookup func(string) (string, bool)) {
	for _, w := range words {
		name := w.Variable()
		value, ok := lookup(name)
		if !ok && w.alias != "" {
			name = w.alias
			value, ok = lookup(name)
		}
		if !ok || value == "" { // empty: how most tools say "not set"
			continue
		}
		if w.Once {
			l.onceOnly(w, name)
			continue
		}
		values := []string{value}
		if w.Shape == Many {
			values = strings.Split(value, ",")
			for i := range values {
				values[i] = strings.TrimSpace(values[i])
			}
		}
		l.assign(w, values, name)
	}
	l.emulator(lookup)
	name := Word{Name: accessRules}.Variable()
	if value, ok := lookup(name); ok && value != "" {
		root, err := parseYAML([]byte(value))
		if err != nil {
			l.problems.add(name, "not valid YAML or JSON")
			return
		}
		l.access(root, func(*yaml.Node) string { return name })
	}
}

func (l *loader) file(name string) {
	src, err := readBounded(name, maxConfigFile)
	if err != nil {
		l.problems.add("", "config file: %v", err)
		return
	}
	root, err := parseYAML(src)
	if err != nil {
		l.problems.add(name, "%s", quoted.ReplaceAllString(err.Error(), "'***'"))
		return
	}
	if root == nil {
		return // an empty file is a file without settings
	}
	f := &configFile{loader: l, name: name}
	f.block(root, "")
}

// configFile walks the YAML file, so that every complaint can name key and line.
type configFile struct {
	*loader
	name string
}

func (f *configFile) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", f.name, n.Line) }

func (f *configFile) block(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		f.problems.add(f.at(n), "%smust be a block of keys", label(strings.TrimSuffix(prefix, ".")))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := prefix + key.Value
		if seen[path] {
			f.problems.add(f.at(key), "%sgiven twice", label(path))
			continue
		}
		seen[path] = true
		switch w, known := word(path); {
		case path == "tls" && value.Kind == yaml.MappingNode:
			f.block(value, "tls.")
		case known:
			f.value(w, value)
		case slices.ContainsFunc(words, func(w Word) bool { return strings.HasPrefix(w.Name, path+".") }):
			f.block(value, path+".")
		case path == historyPolicies:
			f.policies(value)
		case path == accessRules:
			f.access(value, f.at)
			if inlineKeys(value) {
				f.private(key)
			}
		default:
			f.problems.add(f.at(key), "%sunknown key", label(path))
		}
	}
}

// private complains when others may read a file with keys in it (reliability.md S31).
func (f *configFile) private(n *yaml.Node) {
	if err := CheckPrivate(f.name); err != nil {
		f.problems.add(f.at(n), "%s: %v", accessRules, err)
	}
}

func (f *configFile) value(w Word, n *yaml.Node) {
	where := f.at(n) + ": " + w.Name
	var values []string
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return // a key without a value is a key not given
	case n.Kind == yaml.ScalarNode:
		values = []string{n.Value}
	case n.Kind == yaml.SequenceNode && w.Shape == Many:
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				f.problems.add(f.at(item)+": "+w.Name, "must be a list of plain values")
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

// onceOnly complains about a decision about one start that is given where it would hold for every
// start.
func (l *loader) onceOnly(w Word, where string) {
	l.problems.add(where, "holds for one start only, and here it would apply to every start: give it as the flag --%s", w.Flag())
}

// access reads a list of access rules. Messages never quote a value: it may be a key in the wrong
// place.
func (l *loader) access(n *yaml.Node, at func(*yaml.Node) string) {
	if n == nil || n.Kind != yaml.SequenceNode {
		where := "" // an empty document has no line
		if n != nil {
			where = at(n)
		}
		l.problems.add(where, "%s: must be a list of rules, each with name, rights and primary-key or primary-key-file", accessRules)
		return
	}
	l.settings.Access = nil
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d]", accessRules, i)
		l.settings.Access = append(l.settings.Access, l.rule(item, path, at))
	}
	l.origin[accessRules] = at(n)
}

func (l *loader) rule(n *yaml.Node, path string, at func(*yaml.Node) string) AccessRule {
	var rule AccessRule
	if n.Kind != yaml.MappingNode {
		l.problems.add(at(n), "%s: must have the keys name, rights, primary-key", path)
		return rule
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		where := at(key) + ": " + path + "." + key.Value
		if seen[key.Value] {
			l.problems.add(where, "given twice")
			continue
		}
		seen[key.Value] = true
		switch key.Value {
		case "name":
			rule.Name = l.scalar(value, where)
		case "rights":
			rule.Rights = l.rights(value, where)
		case "primary-key":
			rule.Primary = NewSecret(l.scalar(value, where))
		case "secondary-key":
			rule.Secondary = NewSecret(l.scalar(value, where))
		case "primary-key-file":
			rule.Primary = l.keyFile(l.scalar(value, where), where)
		case "secondary-key-file":
			rule.Secondary = l.keyFile(l.scalar(value, where), where)
		default:
			l.problems.add(where, "unknown key")
		}
	}
	if rule.Name == "" {
		l.problems.add(at(n)+": "+path+".name", "missing")
	}
	if !seen["rights"] {
		l.problems.add(at(n)+": "+path+".rights", "missing; choose from Manage, Send, Listen, ReadHistory, ReadBodies")
	}
	if seen["primary-key-file"] && seen["primary-key"] {
		l.problems.add(at(n)+": "+path+".primary-key", "given together with primary-key-file")
	}
	if !seen["primary-key-file"] && rule.Primary.IsZero() {
		l.problems.add(at(n)+": "+path+".primary-key", "missing, or use primary-key-file")
	}
	return rule
}

func (l *loader) scalar(n *yaml.Node, where string) string {
	if n.Kind != yaml.ScalarNode {
		l.problems.add(where, "must be a plain value")
		return ""
	}
	return n.Value
}

func (l *loader) rights(n *yaml.Node, where string) []Right {
	var rights []Right
	for _, item := range n.Content {
		switch r := Right(item.Value); r {
		case Manage, Send, Listen, ReadHistory, ReadBodies:
			rights = append(rights, r)
		default:
			l.problems.add(where, "each must be one of Manage, Send, Listen, ReadHistory, ReadBodies")
		}
	}
	if len(n.Content) == 0 {
		l.problems.add(where, "must be a list with at least one of Manage, Send, Listen, ReadHistory, ReadBodies")
	}
	return rights
}

func (l *loader) keyFile(name, where string) Secret {
	if name == "" {
		return Secret{} // complained about as missing
	}
	if err := CheckPrivate(name); err != nil {
		l.problems.add(where, "%v", err)
		return Secret{}
	}
	src, err := readBounded(name, maxKeyFile)
	if err != nil {
		l.problems.add(where, "%v", err)
		return Secret{}
	}
	key := strings.TrimSpace(string(src))
	if key == "" {
		l.problems.add(where, "%s: holds no key", name)
	}
	return NewSecret(key)
}

// CheckPrivate refuses a file that group or world may read (reliability.md S31).
func CheckPrivate(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%s holds keys and others may read it (mode %04o); chmod 600 it", name, mode)
	}
	return nil
}

func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(src)) > limit {
		err = fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return src, err
}

// parseYAML reads one document; nil for an empty one.
func parseYAML(src []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

// inlineKeys reports whether a list of access rules holds keys itself.
func inlineKeys(n *yaml.Node) bool {
	for _, item := range n.Content {
		for i := 0; i+1 < len(item.Content); i += 2 {
			if k := item.Content[i].Value; k == "primary-key" || k == "secondary-key" {
				return true
			}
		}
	}
	return false
}

func word(name string) (Word, bool) {
	for _, w := range words {
		if w.Name == name {
			return w, true
		}
	}
	return Word{}, false
}

func label(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}
