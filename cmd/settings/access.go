package settings

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"
)

// access reads a list of access rules. Its messages quote no value, which may be a key in the wrong
// place.
func (l *loader) access(n *yaml.Node, at func(*yaml.Node) string) {
	if n == nil || n.Kind != yaml.SequenceNode {
		where := "" // an empty document has no line
		if n != nil {
			where = at(n)
		}
		l.problems.add(where, "%s: must be a list of rules, each with name, rights, and primary-key or primary-key-file", accessRules)
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
		return Secret{} // reported as missing
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
		l.problems.add(where, "%s: has no key", name)
	}
	return NewSecret(key)
}

// CheckPrivate refuses a file that its group or others may read (reliability.md S31).
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

// inlineKeys reports whether a list of access rules contains keys.
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
