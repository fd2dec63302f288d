package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	accessRules   = "access-rules"
	maxConfigFile = 1 << 20
	maxKeyFile    = 4 << 10
)

// quotation matches the parts of the file that an error of the YAML reader quotes: one may be a
// key.
var quotation = regexp.MustCompile(`'[^']{2,}'`)

// Sources are the places that settings come from.
type Sources struct {
	// YAML file; "" means none. Paths in it are relative to the working directory.
	File  string
	Env   func(string) (string, bool) // [os.LookupEnv]; nil means none
	Flags map[string][]string         // values given as flags, by the word's name
}

// Load merges flags, environment, file and defaults, in this order of precedence, checks the result
// and reads the entity file. Its error is a [Problems] with everything that is wrong.
//
// Load ignores environment variables that begin with LEDGERBUS_ and name no setting: a container
// platform derives some from the name of the service.
func Load(from Sources) (Settings, error) {
	l := gather(from)
	l.finish()
	if err := l.problems.err(); err != nil {
		return Settings{}, err
	}
	return l.settings, nil
}

// gather merges the sources. It makes no check that needs more than one value.
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

// loader collects values and problems. A later assignment wins; problems of earlier, lower sources
// are still reported.
type loader struct {
	settings Settings
	origin   map[string]string // by word: where its value came from
	problems Problems
	inline   inlineFile // entities in the environment
	present  string     // an entity file that need not exist; "" means none
	httpPort string     // replaces the emulator's HTTP port; "" means that it stays
}

func (l *loader) assign(w Word, values []string, where string) {
	if w.Fixed != "" {
		l.note(Note{Where: where, Old: w.Name, New: w.Fixed, Fixed: true})
		return
	}
	if w.Shape == One {
		if now := w.old[values[0]]; now != "" {
			l.note(Note{Where: where, Old: values[0], New: now})
			values = []string{now}
		}
	}
	if err := w.setter.set(&l.settings, values); err != nil {
		l.problems.add(where, "%v", err)
	}
	l.origin[w.Name] = where
}

func (l *loader) note(n Note) { l.settings.Notes = append(l.settings.Notes, n) }

func (l *loader) environment(lookup func(string) (string, bool)) {
	for _, w := range words {
		name := w.Variable()
		value, ok := lookup(name)
		if !ok && w.alias != "" {
			name = w.alias
			value, ok = lookup(name)
		}
		if !ok || value == "" { // most tools set an empty value for "not set"
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

// onceOnly complains about a decision about one start in a place that applies to every start.
func (l *loader) onceOnly(w Word, where string) {
	l.problems.add(where, "decides about one start, and here it would apply to every start: give it as the flag --%s", w.Flag())
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

// parseYAML reads one document. It returns nil for an empty one.
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

func word(name string) (Word, bool) {
	for _, w := range words {
		if w.Name == name {
			return w, true
		}
	}
	return Word{}, false
}
