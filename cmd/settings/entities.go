package settings

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	maxEntityFile = 16 << 20
	maxEntities   = 10_000 // queues and topics of a namespace (semantics.md 16.3)
)

// ReadEntities reads an entity file: the emulator's Config.json, with or without comments and byte
// order mark, or the same in YAML when its name ends in .yaml or .yml. UserConfig and Namespaces
// may be left out: then Queues and Topics are keys of the file itself. The entities come in an
// order in which they can be put: queues, topics, subscriptions. Properties that the file leaves
// out have the emulator's defaults (management-api.md 4.2); Load decides by mode and source.
//
// An error about the content is a [Problems] with JSON path and line of every mistake: ReadEntities
// drops nothing silently. Only its owner may be able to read a file with keys (reliability.md S31).
//
// Used names the emulator's defaults that the file relies on, a line for each kind of entity.
func ReadEntities(file string) (put []engine.PutEntity, used []string, err error) {
	f, err := readEntities(file, readMode{})
	if err != nil {
		return nil, nil, err
	}
	return f.put, f.used, nil
}

// readMode selects how an entity file is read. The zero value is for a file that a setting names in
// development mode.
type readMode struct {
	lenient bool // unknown keys are ignored, as the emulator does
	// properties that are left out have the service's defaults, and stay as they are where the
	// entity exists; else they have the emulator's
	service bool
}

func (how readMode) defaults(kind event.EntityKind) event.Properties {
	if how.service {
		return engine.DefaultProperties(kind)
	}
	return emulatorDefaults(kind)
}

// entityFile is the content of an entity file.
type entityFile struct {
	put []engine.PutEntity
	// by lower-case path: file, line and path of the entity
	where   map[string]string
	ignored Problems // keys that a lenient reader skips
	used    []string // defaults of the emulator that an entity has, a line for each kind
	// by lower-case path: the properties that the file names, where others stay as they are
	given map[string]uint32
}

func readEntities(file string, how readMode) (*entityFile, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, Problems{{Text: fmt.Sprintf("entity file: %v", err)}}
	}
	if info.Size() > maxEntityFile {
		return nil, Problems{{Where: file, Text: fmt.Sprintf("%d bytes exceed the limit of %d for an entity file", info.Size(), maxEntityFile)}}
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, Problems{{Text: fmt.Sprintf("entity file: %v", err)}}
	}
	return parseEntities(file, src, how, CheckPrivate)
}

// parseEntities reads a file's content. If the file has keys, parseEntities calls private, unless
// it is nil: private returns an error for a file that others may read.
func parseEntities(file string, src []byte, how readMode, private func(string) error) (*entityFile, error) {
	parse := parseJSON
	switch strings.ToLower(filepath.Ext(file)) {
	case ".yaml", ".yml":
		parse = parseYAMLTree
	}
	root, problem := parse(src)
	if problem != nil {
		where := file
		if problem.Where != "" {
			where += ":" + problem.Where
		}
		return nil, Problems{{Where: where, Text: problem.Text}}
	}
	r := &entityReader{file: file, how: how, names: map[string]*entry{}}
	r.document(root)
	r.checkForwarding()
	if r.key != nil && private != nil {
		if err := private(file); err != nil {
			r.complain(r.key, "%v", err)
		}
	}
	if r.hasErrors() {
		return nil, r.sortedProblems()
	}
	f := &entityFile{where: map[string]string{}, ignored: r.sortedProblems()}
	if how.service {
		f.given = map[string]uint32{}
	} else {
		f.used = usedDefaults(file, r.queues, r.topics, r.subscriptions)
	}
	for _, e := range r.entries() {
		f.put = append(f.put, e.put)
		path := strings.ToLower(e.put.Path)
		if f.where[path] = r.at(e.name); how.service {
			f.given[path] = e.givenBits()
		}
	}
	return f, nil
}

// entityReader walks an entity file, collecting entities and problems.
type entityReader struct {
	file     string
	how      readMode
	problems []complaint
	key      *node             // the first key of an access rule
	names    map[string]*entry // queues and topics by lower-case path

	queues, topics, subscriptions []*entry
}

// entry is an entity of the file with its nodes.
type entry struct {
	put  engine.PutEntity
	name *node
	keys map[string]*node // of the properties that are given
	bad  map[string]bool  // properties with problems
}

// complaint is a problem and the line it is on.
type complaint struct {
	line int
	// an unknown key: a lenient reader ignores it, unless something else is wrong
	unknown bool
	Problem
}

// entries returns all entities in the order in which they can be put.
func (r *entityReader) entries() []*entry {
	return slices.Concat(r.queues, r.topics, r.subscriptions)
}

func (r *entityReader) complain(n *node, format string, args ...any) {
	r.problems = append(r.problems, complaint{line: n.line, Problem: Problem{Where: r.at(n), Text: fmt.Sprintf(format, args...)}})
}

// unknown complains about a key that has no meaning in its place.
func (r *entityReader) unknown(n *node, format string, args ...any) {
	r.complain(n, format, args...)
	r.problems[len(r.problems)-1].unknown = true
}

// hasErrors reports whether the file cannot be used. Then the problems include unknown keys: one
// may be a misspelled key that is missing.
func (r *entityReader) hasErrors() bool {
	return slices.ContainsFunc(r.problems, func(c complaint) bool { return !c.unknown || !r.how.lenient })
}

// strictness follows the first unknown key of a file that is refused because of it.
const strictness = " (unknown keys are ignored only in a file that CONFIG_PATH, CONFIG_JSON or the emulator's own path names)"

// sortedProblems returns the problems from the file's beginning to its end.
func (r *entityReader) sortedProblems() Problems {
	slices.SortStableFunc(r.problems, func(a, b complaint) int { return cmp.Compare(a.line, b.line) })
	all := make(Problems, len(r.problems))
	for i, c := range r.problems {
		all[i] = c.Problem
	}
	if i := slices.IndexFunc(r.problems, func(c complaint) bool { return c.unknown }); i >= 0 && !r.how.lenient {
		all[i].Text += strictness
	}
	return all
}

// at returns file, line and path of a value.
func (r *entityReader) at(n *node) string {
	where := fmt.Sprintf("%s:%d", r.file, n.line)
	if n.path != "" {
		where += ": " + n.path
	}
	return where
}

// readers are the functions that read the keys of an object.
type readers map[string]func(*node)

// object calls the reader of each key. Keys given twice and missing required ones are problems, and
// so are unknown ones unless the reader is lenient. A key with the value null counts as left out.
func (r *entityReader) object(n *node, known readers, required ...string) {
	members, ok := n.value.([]member)
	if !ok {
		r.complain(n, "must be an object, not %s", n.kind())
		return
	}
	seen := map[string]bool{}
	for _, m := range members {
		at := &node{line: m.line, path: m.node.path}
		read, ok := known[m.key]
		switch {
		case !ok:
			r.unknown(at, "unknown key%s", known.hint(m.key))
		case seen[m.key]:
			r.complain(at, "given twice")
		case m.node.value != nil:
			read(m.node)
		}
		seen[m.key] = seen[m.key] || m.node.value != nil
	}
	for _, key := range required {
		if !seen[key] {
			r.complain(&node{line: n.line, path: join(n.path, key)}, "missing")
		}
	}
}

// hint returns a suggestion for an unknown key.
func (known readers) hint(key string) string {
	names := slices.Sorted(maps.Keys(known))
	if meant := findClosest(key, names); meant != "" {
		return fmt.Sprintf("; the closest is %q", meant)
	}
	if known["Properties"] != nil && slices.ContainsFunc(properties, func(p property) bool { return p.name == key }) {
		return `; it belongs in "Properties"`
	}
	if len(names) <= 9 {
		return "; known are " + strings.Join(names, ", ")
	}
	return ""
}

func (r *entityReader) array(n *node) []*node {
	items, ok := n.value.([]*node)
	if !ok {
		r.complain(n, "must be an array, not %s", n.kind())
	}
	return items
}

func (r *entityReader) document(root *node) {
	members, _ := root.value.([]member)
	short := slices.ContainsFunc(members, func(m member) bool { return m.key == "Queues" || m.key == "Topics" })
	wrapped := slices.ContainsFunc(members, func(m member) bool { return m.key == "UserConfig" && m.node.value != nil })
	schema := func(*node) {} // for editors
	if short && !wrapped {
		r.object(root, readers{"$schema": schema, "Queues": r.list(&r.queues, r.queue), "Topics": r.list(&r.topics, r.topic)})
		return
	}
	if members != nil && !wrapped {
		r.complain(&node{line: root.line, path: "UserConfig"}, "missing; without it, Queues and Topics may be at the top of the file")
	}
	r.object(root, readers{
		"$schema": schema,
		"UserConfig": func(n *node) {
			r.object(n, readers{"Namespaces": r.namespaces, "Logging": r.logging}, "Namespaces")
		},
	})
}

// logging checks the block with the destination of the emulator's log, which the broker does not
// use.
func (r *entityReader) logging(n *node) {
	r.object(n, readers{"Type": func(n *node) {
		var kind string
		if r.text(n, &kind); kind != "" && kind != "File" && kind != "Console" && kind != "File,Console" && kind != "Console,File" {
			r.complain(n, "%q is none of File, Console, \"File,Console\", \"Console,File\"", kind)
		}
	}})
}

func (r *entityReader) namespaces(n *node) {
	items := r.array(n)
	if _, isArray := n.value.([]*node); isArray && len(items) == 0 {
		r.complain(n, "must have one namespace")
	}
	for i, item := range items {
		if i > 0 {
			r.complain(item, "several namespaces are not supported yet; use one file and one broker for each")
			continue
		}
		var name string // has no effect: the namespace is the host that clients connect to
		r.object(item, readers{"Name": func(n *node) { r.text(n, &name) }, "Queues": r.list(&r.queues, r.queue), "Topics": r.list(&r.topics, r.topic)}, "Name")
	}
}

// list reads an array of queues or topics. It makes one complaint about too many, not one for each.
func (r *entityReader) list(into *[]*entry, read func(*node) *entry) func(*node) {
	return func(n *node) {
		items := r.array(n)
		if sum := len(items) + len(r.queues) + len(r.topics); sum > maxEntities {
			r.complain(n, "%d queues and topics are more than the %d a namespace may have", sum, maxEntities)
			return
		}
		for _, item := range items {
			*into = append(*into, read(item))
		}
	}
}

func (r *entityReader) entry(kind event.EntityKind, n *node) *entry {
	return &entry{put: engine.PutEntity{Kind: kind, Properties: r.how.defaults(kind)}, name: n, keys: map[string]*node{}, bad: map[string]bool{}}
}

func (r *entityReader) queue(n *node) *entry {
	e := r.entry(event.Queue, n)
	r.object(n, readers{"Name": r.path(e), "Properties": r.properties(e)}, "Name")
	r.check(n, e)
	return e
}

func (r *entityReader) topic(n *node) *entry {
	e := r.entry(event.Topic, n)
	var subscriptions *node
	r.object(n, readers{"Name": r.path(e), "Properties": r.properties(e), "Subscriptions": storeIn(&subscriptions)}, "Name")
	r.check(n, e)
	if subscriptions == nil {
		return e
	}
	seen := map[string]*node{}
	for _, item := range r.array(subscriptions) {
		r.subscriptions = append(r.subscriptions, r.subscription(item, e.put.Path, seen))
	}
	return e
}

// subscription reads a subscription of a topic. The topic is "" if its name was refused.
func (r *entityReader) subscription(n *node, topic string, seen map[string]*node) *entry {
	e := r.entry(event.Subscription, n)
	var name string
	r.object(n, readers{
		"Name": func(n *node) {
			if !r.uniqueName(n, event.Subscription.String(), &name, seen) {
				return
			}
			e.name, e.put.Path = n, engine.SubscriptionPath(topic, name)
		},
		"Properties": r.properties(e),
		"Rules": func(n *node) {
			// Generators of entity files write an empty list if there are no rules.
			if rules := r.rules(n); len(rules) > 0 {
				e.put.Rules, e.put.OnlyRules = rules, true
			}
		},
	}, "Name")
	r.check(n, e)
	return e
}

// storeIn returns a reader that stores the value, until its neighbours are read.
func storeIn(into **node) func(*node) {
	return func(n *node) { *into = n }
}

// path returns a reader of the name of a queue or topic. They share one name space (semantics.md
// 1.2).
func (r *entityReader) path(e *entry) func(*node) {
	return func(n *node) {
		var name string
		if !r.text(n, &name) {
			return
		}
		path, err := cleanPath(e.put.Kind, name)
		if err != nil {
			r.complain(n, "%s", oneLine(err.Text))
			return
		}
		if first := r.names[strings.ToLower(path)]; first != nil {
			r.complain(n, "a %s named %q exists already, on line %d; letter case does not matter, and queues and topics share their names",
				strings.ToLower(first.put.Kind.String()), first.put.Path, first.name.line)
			return
		}
		e.name, e.put.Path = n, path
		r.names[strings.ToLower(path)] = e
	}
}

// uniqueName reads the name of a subscription or rule, which must be unique in its parent.
func (r *entityReader) uniqueName(n *node, what string, into *string, seen map[string]*node) bool {
	if !r.text(n, into) {
		return false
	}
	if err := engine.CheckName(what, *into); err != nil {
		r.complain(n, "%s", oneLine(err.Text))
		return false
	}
	if first := seen[strings.ToLower(*into)]; first != nil {
		r.complain(n, "a %s named %q exists already, on line %d; letter case does not matter", strings.ToLower(what), first.value, first.line)
		return false
	}
	seen[strings.ToLower(*into)] = n
	return true
}

// cleanPath checks a queue's or topic's name and returns it with "/" for every "\"
// (management-api.md 5.4).
func cleanPath(kind event.EntityKind, name string) (string, *engine.Error) {
	path := strings.ReplaceAll(name, `\`, "/")
	return path, engine.CheckPath(kind, path)
}

// checkForwarding checks that every destination of ForwardTo exists, and stores its bare name.
func (r *entityReader) checkForwarding() {
	for _, e := range r.entries() {
		p := &e.put.Properties
		for _, f := range [...]struct {
			key   string
			value *string
		}{{"ForwardTo", &p.ForwardTo}, {"ForwardDeadLetteredMessagesTo", &p.ForwardDeadLetteredMessagesTo}} {
			at := e.keys[f.key]
			if at == nil || *f.value == "" || e.bad[f.key] {
				continue
			}
			*f.value = engine.ForwardPath(*f.value)
			target := r.names[strings.ToLower(*f.value)]
			if target == nil {
				r.complain(at, "there is no queue or topic named %q in the file; a subscription cannot be forwarded to%s", *f.value, r.suggest(*f.value))
			}
		}
	}
}

// suggest returns the entity with the closest name, for a message.
func (r *entityReader) suggest(name string) string {
	if name := findClosest(name, slices.Sorted(maps.Keys(r.names))); name != "" {
		return fmt.Sprintf("; the closest is %q", r.names[name].put.Path)
	}
	return ""
}

// oneLine removes the line breaks of a text of the management API.
func oneLine(text string) string {
	return strings.NewReplacer(".\r\n", ". ", "\r\n", "; ").Replace(text)
}
