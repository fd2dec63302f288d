package settings

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Ranges of a queue's properties (semantics.md 1.3, management-api.md 3.2). The emulator's narrower ones are not ours.
const (
	minLockDuration    = 5 * time.Second
	maxLockDuration    = 5 * time.Minute
	minTimeToLive      = time.Second
	minDuplicateWindow = 20 * time.Second
	maxDuplicateWindow = 7 * 24 * time.Hour
	minIdle            = 5 * time.Minute
	maxDeliveryCount   = 1<<31 - 1
	sizeStepMegabytes  = 1024
	maxSizeMegabytes   = 81920
	maxMessageKB       = 102400
	maxUserMetadata    = 1024 // characters
	maxEntityFile      = 16 << 20
	maxQueueName       = 260
	maxQueues          = 10_000 // of a namespace (semantics.md 16.3)
)

// DefaultQueue is what a queue gets that is made with nothing but a name: the cloud's defaults (semantics.md 1.3).
func DefaultQueue() event.Properties {
	return event.Properties{
		LockDuration:             time.Minute,
		MaxSizeMegabytes:         1024,
		MaxMessageSizeKilobytes:  256,
		DuplicateDetectionWindow: 10 * time.Minute,
		DefaultMessageTimeToLive: event.Forever,
		MaxDeliveryCount:         10,
		EnableBatchedOperations:  true,
		Status:                   event.Active,
		AutoDeleteOnIdle:         event.Forever,
	}
}

// emulatorQueue is what a queue of the entity file gets for the properties the file leaves out.
func emulatorQueue() event.Properties {
	p := DefaultQueue()
	p.DefaultMessageTimeToLive = time.Hour
	p.DuplicateDetectionWindow = 20 * time.Second
	p.MaxDeliveryCount = 3
	return p
}

// ReadEntities reads an entity file: the emulator's Config.json, comments and byte order mark allowed. An error about its
// content is a [Problems] with the JSON path and line of everything that is wrong or not supported: nothing in the file is
// dropped silently.
func ReadEntities(file string) ([]engine.PutQueue, error) {
	r, err := readEntities(file)
	if err != nil {
		return nil, err
	}
	return r.queues, nil
}

func readEntities(file string) (*entityReader, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, Problems{{Text: fmt.Sprintf("entity file: %v", err)}}
	}
	if info.Size() > maxEntityFile {
		return nil, Problems{{Where: file, Text: fmt.Sprintf("%d bytes are over the limit of %d for an entity file", info.Size(), maxEntityFile)}}
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, Problems{{Text: fmt.Sprintf("entity file: %v", err)}}
	}
	return parseEntities(file, src)
}

// ParseEntities is [ReadEntities] on bytes already read; file is the name for messages.
func ParseEntities(file string, src []byte) ([]engine.PutQueue, error) {
	r, err := parseEntities(file, src)
	if err != nil {
		return nil, err
	}
	return r.queues, nil
}

func parseEntities(file string, src []byte) (*entityReader, error) {
	root, problem := parseJSON(src)
	if problem != nil {
		return nil, Problems{{Where: file + ":" + problem.Where, Text: problem.Text}}
	}
	r := &entityReader{file: file, names: map[string]*node{}}
	r.document(root)
	if err := r.problems.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// entityReader walks an entity file, collecting queues and problems.
type entityReader struct {
	file     string
	problems Problems
	names    map[string]*node // by lower-case name: where it was given first
	queues   []engine.PutQueue
}

func (r *entityReader) complain(n *node, format string, args ...any) {
	r.problems.add(r.at(n), format, args...)
}

// at is file, line and path of a value.
func (r *entityReader) at(n *node) string {
	where := fmt.Sprintf("%s:%d", r.file, n.line)
	if n.path != "" {
		where += ": " + n.path
	}
	return where
}

// object calls the reader of each key. Unknown keys, keys given twice and missing required ones are problems; a null is
// as if its key were not there.
func (r *entityReader) object(n *node, readers map[string]func(*node), required ...string) {
	members, ok := n.value.([]member)
	if !ok {
		r.complain(n, "must be an object, not %s", n.kind())
		return
	}
	seen := map[string]bool{}
	for _, m := range members {
		at := &node{line: m.line, path: m.node.path}
		read, known := readers[m.key]
		switch {
		case seen[m.key]:
			r.complain(at, "given twice")
		case !known:
			r.complain(at, "unknown key%s", suggestion(m.key, readers))
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

// suggestion names the key that differs in letter case alone, if there is one.
func suggestion(key string, readers map[string]func(*node)) string {
	for known := range readers {
		if strings.EqualFold(known, key) {
			return fmt.Sprintf("; it is written %q", known)
		}
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
	r.object(root, map[string]func(*node){
		"$schema": func(*node) {}, // for editors
		"UserConfig": func(n *node) {
			r.object(n, map[string]func(*node){"Namespaces": r.namespaces, "Logging": r.logging}, "Namespaces")
		},
	}, "UserConfig")
}

// logging checks the block that tells the emulator where to log to; ledgerbus has log-level and log-format for that.
func (r *entityReader) logging(n *node) {
	r.object(n, map[string]func(*node){"Type": func(n *node) {
		var kind string
		if r.text(&kind)(n); kind != "" && kind != "File" && kind != "Console" && kind != "File,Console" && kind != "Console,File" {
			r.complain(n, "%q is none of File, Console, \"File,Console\", \"Console,File\"", kind)
		}
	}})
}

func (r *entityReader) namespaces(n *node) {
	items := r.array(n)
	if _, isArray := n.value.([]*node); isArray && len(items) == 0 {
		r.complain(n, "must hold one namespace")
	}
	for i, item := range items {
		if i > 0 {
			r.complain(item, "several namespaces are not supported yet")
			continue
		}
		var name string // any: the namespace is whatever host clients connect to
		r.object(item, map[string]func(*node){
			"Name": r.text(&name),
			"Queues": func(n *node) {
				queues := r.array(n)
				if len(queues) > maxQueues {
					r.complain(n, "%d queues are more than the %d a namespace may have", len(queues), maxQueues)
					return
				}
				for _, q := range queues {
					r.queue(q)
				}
			},
			"Topics": func(n *node) {
				for _, t := range r.array(n) {
					r.complain(t, "topics are not supported yet")
				}
			},
		}, "Name")
	}
}

func (r *entityReader) queue(n *node) {
	q := engine.PutQueue{Properties: emulatorQueue()}
	r.object(n, map[string]func(*node){
		"Name": func(n *node) {
			if r.text(&q.Path)(n); q.Path == "" {
				if _, isText := n.value.(string); !isText {
					return // complained about already
				}
			}
			path, err := CleanQueueName(q.Path)
			if err != nil {
				r.complain(n, "%v", err)
				return
			}
			q.Path = path
			if first := r.names[strings.ToLower(path)]; first != nil {
				r.complain(n, "%q exists already, on line %d (letter case does not matter)", path, first.line)
				return
			}
			r.names[strings.ToLower(path)] = n
		},
		"Properties": func(n *node) { r.properties(n, &q.Properties) },
	}, "Name")
	r.queues = append(r.queues, q)
}

// properties reads what management-api.md 3.2 lists: the emulator's keys and the optional further ones.
func (r *entityReader) properties(n *node, p *event.Properties) {
	const unsupported = "is not supported yet"
	r.object(n, map[string]func(*node){
		"LockDuration":                        r.duration(&p.LockDuration, minLockDuration, maxLockDuration),
		"DefaultMessageTimeToLive":            r.duration(&p.DefaultMessageTimeToLive, minTimeToLive, event.Forever),
		"DuplicateDetectionHistoryTimeWindow": r.duration(&p.DuplicateDetectionWindow, minDuplicateWindow, maxDuplicateWindow),
		"AutoDeleteOnIdle":                    r.duration(&p.AutoDeleteOnIdle, minIdle, event.Forever),
		"DeadLetteringOnMessageExpiration":    r.boolean(&p.DeadLetteringOnMessageExpiration),
		"EnableBatchedOperations":             r.boolean(&p.EnableBatchedOperations),
		"RequiresSession":                     r.boolean(&p.RequiresSession),
		"RequiresDuplicateDetection":          r.boolean(&p.RequiresDuplicateDetection),
		"MaxDeliveryCount":                    r.count(&p.MaxDeliveryCount, 1, maxDeliveryCount),
		"MaxMessageSizeInKilobytes":           r.count(&p.MaxMessageSizeKilobytes, 1, maxMessageKB),
		"MaxSizeInMegabytes": func(n *node) {
			before := len(r.problems)
			r.count(&p.MaxSizeMegabytes, 1, maxSizeMegabytes)(n)
			// Less than the cloud's smallest size is for trying out what a full queue does.
			if len(r.problems) == before && p.MaxSizeMegabytes > sizeStepMegabytes && p.MaxSizeMegabytes%sizeStepMegabytes != 0 {
				r.complain(n, "%d is not a multiple of %d", p.MaxSizeMegabytes, sizeStepMegabytes)
			}
		},
		"UserMetadata": func(n *node) {
			if r.text(&p.UserMetadata)(n); utf8.RuneCountInString(p.UserMetadata) > maxUserMetadata {
				r.complain(n, "longer than %d characters", maxUserMetadata)
			}
		},
		"EnablePartitioning": func(n *node) {
			if r.boolean(&p.EnablePartitioning)(n); p.EnablePartitioning {
				r.complain(n, "true (a partitioned entity) "+unsupported)
			}
		},
		"ForwardTo": func(n *node) {
			if r.text(&p.ForwardTo)(n); p.ForwardTo != "" {
				r.complain(n, "%q: forwarding %s", p.ForwardTo, unsupported)
			}
		},
		"ForwardDeadLetteredMessagesTo": func(n *node) {
			if r.text(&p.ForwardDeadLetteredMessagesTo)(n); p.ForwardDeadLetteredMessagesTo != "" {
				r.complain(n, "%q: forwarding %s", p.ForwardDeadLetteredMessagesTo, unsupported)
			}
		},
		"Status": func(n *node) {
			var name string
			if r.text(&name)(n); name == "" {
				return // complained about, or the default
			}
			status, ok := statuses[name]
			if !ok {
				r.complain(n, "%q is none of Active, Disabled, SendDisabled, ReceiveDisabled", name)
			}
			p.Status = status
		},
		"AuthorizationRules": func(n *node) {
			if len(r.array(n)) > 0 {
				r.complain(n, "access rules of a single queue are not supported yet")
			}
		},
	})
}

var statuses = map[string]event.Status{
	"Active": event.Active, "Disabled": event.Disabled, "SendDisabled": event.SendDisabled, "ReceiveDisabled": event.ReceiveDisabled,
}

func (r *entityReader) text(into *string) func(*node) {
	return func(n *node) {
		s, ok := n.value.(string)
		if !ok {
			r.complain(n, "must be a string, not %s", n.kind())
			return
		}
		*into = s
	}
}

func (r *entityReader) boolean(into *bool) func(*node) {
	return func(n *node) {
		b, ok := n.value.(bool)
		if !ok {
			r.complain(n, "must be true or false, not %s", n.kind())
			return
		}
		*into = b
	}
}

func (r *entityReader) count(into *uint32, least, most int64) func(*node) {
	return func(n *node) {
		number, ok := n.value.(interface{ Int64() (int64, error) }) // json.Number
		if !ok {
			r.complain(n, "must be a number, not %s", n.kind())
			return
		}
		v, err := number.Int64()
		if err != nil || v < least || v > most {
			r.complain(n, "%v is not a whole number from %d to %d", n.value, least, most)
			return
		}
		*into = uint32(v)
	}
}

func (r *entityReader) duration(into *time.Duration, least, most time.Duration) func(*node) {
	return func(n *node) {
		s, ok := n.value.(string)
		if !ok {
			r.complain(n, "must be an ISO 8601 duration in quotes, not %s", n.kind())
			return
		}
		d, err := ParseDuration(s)
		switch {
		case err != nil:
			r.complain(n, "%v", err)
		case d < least:
			r.complain(n, "%q is shorter than %s, the shortest allowed", s, FormatDuration(least))
		case d > most:
			r.complain(n, "%q is longer than %s, the longest allowed", s, FormatDuration(most))
		default:
			*into = d
		}
	}
}

// CleanQueueName checks a queue's name by the rules of management-api.md 5.4 and returns it with "/" for every "\".
func CleanQueueName(name string) (string, error) {
	clean := strings.ReplaceAll(name, `\`, "/")
	switch {
	case clean == "":
		return "", fmt.Errorf("a queue's name must not be empty")
	case utf8.RuneCountInString(clean) > maxQueueName:
		return "", fmt.Errorf("%.20q…: a queue's name has at most %d characters", name, maxQueueName)
	case strings.Contains(clean, "//"):
		return "", fmt.Errorf("%q: a queue's name must not have empty segments", name)
	}
	for _, c := range clean {
		if !alphanumeric(c) && !strings.ContainsRune("._-/~", c) {
			return "", fmt.Errorf("%q: a queue's name has letters, digits and . - _ ~ / only, not %q", name, c)
		}
	}
	if !alphanumeric(rune(clean[0])) || !alphanumeric(rune(clean[len(clean)-1])) {
		return "", fmt.Errorf("%q: a queue's name must start and end with a letter or digit", name)
	}
	for segment := range strings.SplitSeq(strings.ToLower(clean), "/") {
		if segment == "subscriptions" {
			return "", fmt.Errorf("%q: a segment \"subscriptions\" is reserved for topics", name)
		}
	}
	return clean, nil
}

// alphanumeric tells ASCII letters and digits: the names of Service Bus know no others.
func alphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
