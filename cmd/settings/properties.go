package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// property is one key of "Properties" in an entity file. Reading, writing and comparing use it.
type property struct {
	name  string // as the management API names it
	of    kinds
	fixed bool                               // once the entity exists
	field func(p *event.Properties) (at any) // pointer to it
}

// kinds is a set of kinds of entities.
type kinds uint8

const (
	ofQueue        kinds = 1 << event.Queue
	ofTopic        kinds = 1 << event.Topic
	ofSubscription kinds = 1 << event.Subscription
	ofAll                = ofQueue | ofTopic | ofSubscription
)

func (s kinds) has(kind event.EntityKind) bool { return s>>kind&1 == 1 }

const (
	accessProperty     = "AuthorizationRules"
	partitioning       = "EnablePartitioning"
	forwardTo          = "ForwardTo"
	forwardDeadLetters = "ForwardDeadLetteredMessagesTo"
)

// properties are all properties of management-api.md 3.2 to 3.4 that can be set, in the order of
// the file.
var properties = []property{
	{"LockDuration", ofQueue | ofSubscription, false, func(p *event.Properties) any { return &p.LockDuration }},
	{"MaxDeliveryCount", ofQueue | ofSubscription, false, func(p *event.Properties) any { return &p.MaxDeliveryCount }},
	{"DefaultMessageTimeToLive", ofAll, false, func(p *event.Properties) any { return &p.DefaultMessageTimeToLive }},
	{"DeadLetteringOnMessageExpiration", ofQueue | ofSubscription, false, func(p *event.Properties) any { return &p.DeadLetteringOnMessageExpiration }},
	{"DeadLetteringOnFilterEvaluationExceptions", ofSubscription, false, func(p *event.Properties) any { return &p.DeadLetteringOnFilterError }},
	{"RequiresSession", ofQueue | ofSubscription, true, func(p *event.Properties) any { return &p.RequiresSession }},
	{"RequiresDuplicateDetection", ofQueue | ofTopic, true, func(p *event.Properties) any { return &p.RequiresDuplicateDetection }},
	{"DuplicateDetectionHistoryTimeWindow", ofQueue | ofTopic, false, func(p *event.Properties) any { return &p.DuplicateDetectionWindow }},
	{forwardTo, ofQueue | ofSubscription, false, func(p *event.Properties) any { return &p.ForwardTo }},
	{forwardDeadLetters, ofQueue | ofSubscription, false, func(p *event.Properties) any { return &p.ForwardDeadLetteredMessagesTo }},
	{"Status", ofAll, false, func(p *event.Properties) any { return &p.Status }},
	{"AutoDeleteOnIdle", ofAll, false, func(p *event.Properties) any { return &p.AutoDeleteOnIdle }},
	{"MaxSizeInMegabytes", ofQueue | ofTopic, false, func(p *event.Properties) any { return &p.MaxSizeMegabytes }},
	{"MaxMessageSizeInKilobytes", ofQueue | ofTopic, false, func(p *event.Properties) any { return &p.MaxMessageSizeKilobytes }},
	{partitioning, ofQueue | ofTopic, true, func(p *event.Properties) any { return &p.EnablePartitioning }},
	{"EnableSubscriptionPartitioning", ofTopic, false, func(p *event.Properties) any { return &p.SubscriptionPartitioning }},
	{"SupportOrdering", ofQueue | ofTopic, false, func(p *event.Properties) any { return &p.SupportOrdering }},
	{"EnableBatchedOperations", ofAll, false, func(p *event.Properties) any { return &p.EnableBatchedOperations }},
	{"EnableExpress", ofQueue | ofTopic, false, func(p *event.Properties) any { return &p.EnableExpress }},
	{"FilteringMessagesBeforePublishing", ofTopic, false, func(p *event.Properties) any { return &p.FilteringBeforePublishing }},
	{"UserMetadata", ofAll, false, func(p *event.Properties) any { return &p.UserMetadata }},
	{accessProperty, ofQueue | ofTopic, false, func(p *event.Properties) any { return &p.AccessRules }},
}

// emulatorDefaults returns the properties that an entity has in the emulator if a file leaves them
// out (management-api.md 4.2).
func emulatorDefaults(kind event.EntityKind) event.Properties {
	p := engine.DefaultProperties(kind)
	p.DefaultMessageTimeToLive = time.Hour
	if kind != event.Topic {
		p.MaxDeliveryCount = 3
	}
	if kind != event.Subscription {
		p.DuplicateDetectionWindow = 20 * time.Second
	}
	return p
}

// givenBits returns the properties that the file names, as a bit each by their place in properties.
func (e *entry) givenBits() uint32 {
	var bits uint32
	for i, p := range properties {
		if e.keys[p.name] != nil {
			bits |= 1 << i
		}
	}
	return bits
}

// usedDefaults names the defaults of entities that differ from the service's, a line for each kind.
func usedDefaults(file string, kinds ...[]*entry) []string {
	var lines []string
	for _, entries := range kinds {
		var names []string
		for _, p := range properties {
			if !slices.ContainsFunc(entries, func(e *entry) bool { return e.keys[p.name] == nil && p.differs(e.put.Kind) }) {
				continue
			}
			defaults := emulatorDefaults(entries[0].put.Kind)
			names = append(names, p.name+" "+p.text(&defaults))
		}
		if names != nil {
			kind := strings.ToLower(entries[0].put.Kind.String())
			lines = append(lines, fmt.Sprintf("%s: each %s that leaves it out has the emulator's default: %s", file, kind, strings.Join(names, ", ")))
		}
	}
	return lines
}

// differs reports whether the emulator's default of a property differs from the service's.
func (p property) differs(kind event.EntityKind) bool {
	service, emulator := engine.DefaultProperties(kind), emulatorDefaults(kind)
	return p.of.has(kind) && p.name != accessProperty && p.text(&service) != p.text(&emulator)
}

// properties returns a reader of an entity's properties. A property of another kind is unknown, as
// one that does not exist.
func (r *entityReader) properties(e *entry) func(*node) {
	return func(n *node) {
		known := readers{}
		for _, p := range properties {
			known[p.name] = func(n *node) {
				if !p.of.has(e.put.Kind) {
					r.unknown(n, "a %s does not have this property", strings.ToLower(e.put.Kind.String()))
					return
				}
				before := len(r.problems)
				r.value(n, p.field(&e.put.Properties))
				e.keys[p.name], e.bad[p.name] = n, len(r.problems) > before
			}
		}
		r.object(n, known)
		if p := &e.put.Properties; p.EnablePartitioning {
			if e.keys["SupportOrdering"] == nil {
				p.SupportOrdering = false // semantics.md 1.3
			}
		}
	}
}

// check applies the ranges of the properties, which are the service's or wider. A complaint names
// the place of the property.
func (r *entityReader) check(n *node, e *entry) {
	for _, f := range engine.CheckProperties(e.put.Kind, engine.Unbound, &e.put.Properties) {
		at := e.keys[f.Property]
		switch {
		case e.bad[f.Property]:
			continue
		case at == nil:
			at = &node{line: n.line, path: join(join(n.path, "Properties"), f.Property)}
		}
		r.complain(at, "%s", oneLine(f.Text))
	}
}

// value reads a value into a field of event.Properties.
func (r *entityReader) value(n *node, field any) {
	switch into := field.(type) {
	case *bool:
		r.boolean(n, into)
	case *uint32:
		r.count(n, into)
	case *string:
		r.text(n, into)
	case *time.Duration:
		r.duration(n, into)
	case *event.Status:
		r.status(n, into)
	case *[]event.AccessRule:
		r.accessRules(n, into)
	default:
		panic(fmt.Sprintf("settings: a property of type %T", field))
	}
}

func (r *entityReader) text(n *node, into *string) bool {
	s, ok := n.value.(string)
	if !ok {
		r.complain(n, "must be a string, not %s", n.kind())
		return false
	}
	*into = s
	return true
}

func (r *entityReader) boolean(n *node, into *bool) {
	b, ok := n.value.(bool)
	if !ok {
		r.complain(n, "must be true or false, not %s", n.kind())
		return
	}
	*into = b
}

func (r *entityReader) count(n *node, into *uint32) {
	number, ok := n.value.(json.Number)
	if !ok {
		r.complain(n, "must be a number, not %s", n.kind())
		return
	}
	v, err := number.Int64()
	if err != nil || v < 0 || v > math.MaxUint32 {
		r.complain(n, "%v is not a whole number from 0 to %d", number, uint32(math.MaxUint32))
		return
	}
	*into = uint32(v)
}

func (r *entityReader) duration(n *node, into *time.Duration) {
	s, ok := n.value.(string)
	if !ok {
		r.complain(n, `must be an ISO 8601 duration such as "PT30S", not %s`, n.kind())
		return
	}
	d, err := ParseDuration(s)
	if err != nil {
		r.complain(n, "%v", err)
		return
	}
	*into = d
}

func (r *entityReader) status(n *node, into *event.Status) {
	var name string
	if !r.text(n, &name) {
		return
	}
	var names []string
	for s := event.Active; s <= event.ReceiveDisabled; s++ {
		names = append(names, s.String())
	}
	i := slices.Index(names, name)
	if i < 0 {
		r.oneOf(n, name, names...)
		return
	}
	*into = event.Status(i)
}

// oneOf complains about a word that is not one of the known ones.
func (r *entityReader) oneOf(n *node, word string, words ...string) {
	meant := findClosest(word, words)
	if meant != "" {
		meant = fmt.Sprintf("; the closest is %q", meant)
	}
	r.complain(n, "%q is not one of %s%s", word, strings.Join(words, ", "), meant)
}

// accessRules reads the access rules of a queue or topic (management-api.md 3.7). Its messages
// quote no key.
func (r *entityReader) accessRules(n *node, into *[]event.AccessRule) {
	for _, item := range r.array(n) {
		var rule event.AccessRule
		var primary *node
		r.object(item, readers{
			"KeyName":      func(n *node) { r.text(n, &rule.Name) },
			"Rights":       func(n *node) { r.rights(n, &rule.Rights) },
			"PrimaryKey":   func(n *node) { primary = n; r.secret(n, &rule.Primary) },
			"SecondaryKey": func(n *node) { r.secret(n, &rule.Secondary) },
		}, "KeyName", "Rights")
		if primary == nil {
			r.complain(&node{line: item.line, path: join(item.path, "PrimaryKey")}, "missing; an export leaves keys out unless --with-keys is given; openssl rand -base64 32 makes one")
		}
		if rule.Secondary == "" {
			rule.Secondary = rule.Primary // a random one would differ at every start
		}
		*into = append(*into, rule)
	}
}

func (r *entityReader) rights(n *node, into *event.Rights) {
	for _, item := range r.array(n) {
		right := event.Manage
		for right <= event.Listen && item.value != right.String() {
			right++
		}
		if right > event.Listen {
			r.complain(item, "must be one of Manage, Send, Listen")
			continue
		}
		*into = append(*into, right)
	}
}

func (r *entityReader) secret(n *node, into *event.Secret) {
	if r.key == nil {
		r.key = n
	}
	var key string
	r.text(n, &key)
	*into = event.Secret(key)
}
