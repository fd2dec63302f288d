package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/ledgerbus/ledgerbus/internal/jsontext"
)

// Prefix begins the paths of all requests. No entity can have such a name.
const Prefix = "/$ledger"

// ContentType is the content type of every body and of every answer that is JSON.
const ContentType = "application/json"

// MaxBody bounds the bytes of the body of a request, and MaxAnswer those of an answer.
const (
	MaxBody   = 8 << 10
	MaxAnswer = 1 << 20
)

// A backup is the one answer that is not JSON. It is a tar archive. Its headers say which backup it
// is, its moment, and its approximate number of bytes.
const (
	BackupType  = "application/x-tar"
	BackupID    = "X-Ledgerbus-Backup-Id"
	BackupTime  = "X-Ledgerbus-Backup-Time"
	BackupBytes = "X-Ledgerbus-Backup-Bytes"
)

// LinesType is the content type of answers about the past: one JSON object per line, each a [Line],
// sent as they are found. MaxLine bounds the bytes of a line.
const (
	LinesType = "application/x-ndjson"
	MaxLine   = 1 << 20
)

// Line is a line of an answer about the past.
type Line struct {
	// answer, row, note, next, or one of the constants below
	Part   string          `json:"part"`
	Text   string          `json:"text,omitempty"`   // for people
	Fields json.RawMessage `json:"fields,omitempty"` // for programs: an object
	Code   string          `json:"code,omitempty"`   // of Failed: the code of an [Error]
}

// Parts of lines that do not belong to the answer itself. An answer that ends with neither End nor
// Failed broke off.
const (
	Waiting = "wait"   // nothing was found for some seconds; the search continues
	End     = "end"    // the answer is complete
	Failed  = "failed" // the rest of the answer cannot be given
)

// AppendLine appends a line, with its line end, as it is sent. Fields must be JSON without line
// ends.
func AppendLine(dst []byte, l *Line) []byte {
	dst = jsontext.AppendString(append(dst, `{"part":`...), l.Part)
	if l.Text != "" {
		dst = jsontext.AppendString(append(dst, `,"text":`...), l.Text)
	}
	if len(l.Fields) > 0 {
		dst = append(append(dst, `,"fields":`...), l.Fields...)
	}
	if l.Code != "" {
		dst = jsontext.AppendString(append(dst, `,"code":`...), l.Code)
	}
	return append(dst, "}\n"...)
}

// ReadLine reads a line. It checks the fields, and leaves them as JSON. It ignores unknown members:
// a newer broker may send more.
func ReadLine(text []byte, l *Line) error {
	*l = Line{}
	if len(text) > MaxLine {
		return fmt.Errorf("the line has more than %d bytes", MaxLine)
	}
	if !json.Valid(text) {
		return errors.New("the line is not JSON")
	}
	all := gjson.ParseBytes(text)
	if !all.IsObject() {
		return errors.New("the line is not a JSON object")
	}
	var err error
	all.ForEach(func(name, value gjson.Result) bool {
		want := gjson.String
		switch name.Str {
		case "part":
			l.Part = value.Str
		case "text":
			l.Text = value.Str
		case "code":
			l.Code = value.Str
		case "fields":
			want, l.Fields = gjson.JSON, json.RawMessage(value.Raw)
		default:
			return true
		}
		if value.Type != want || want == gjson.JSON && !value.IsObject() {
			err = fmt.Errorf("member %s of the line has the wrong type: %.40s", name.Str, value.Raw)
		}
		return err == nil
	})
	return err
}

// Partitions is the answer to a request for all partitions.
type Partitions struct {
	Partitions []Partition `json:"partitions"`
}

// Partition is the state of a partition of the log.
type Partition struct {
	ID    int        `json:"id"`
	State string     `json:"state"`           // serving, starting, fenced or refused
	Since *time.Time `json:"since,omitempty"` // when the state began; nil: unknown
	// one line; "" while it serves, unless stored data of it is known to be damaged
	Cause string `json:"cause,omitempty"`
	// the access rule or subject that caused the state; "": none
	By string `json:"by,omitempty"`
	// Scrubbed is when the last complete check of its log ended; nil: none has ended yet.
	Scrubbed *time.Time `json:"scrubbed,omitempty"`
}

// HistoryPolicies are the policies of the namespace and of all patterns.
type HistoryPolicies struct {
	Namespace NamespaceHistory `json:"namespace"` // where no policy says otherwise
	Policies  []HistoryPolicy  `json:"policies"`  // the most specific one first
}

// NamespaceHistory is the policy of the namespace: the settings, or the defaults.
type NamespaceHistory struct {
	HistoryPolicy
	Share int `json:"share"` // percent of the disk that all history may use
	// history is kept even when sends must be refused because the disk is full
	BeforeSends bool `json:"beforeSends"`
}

// HistoryPolicy says how long history is kept of the entities that a pattern matches: a time such
// as 7d or 36h, none, or unlimited. "" says nothing.
type HistoryPolicy struct {
	Pattern string `json:"pattern,omitempty"`
	Events  string `json:"events,omitempty"`
	Bodies  string `json:"bodies,omitempty"`
	Undo    string `json:"undo,omitempty"`
}

// Erase names the message whose body is to erase.
type Erase struct {
	// path; messages of a dead-letter queue have the path of its entity
	Entity   string `json:"entity"`
	Sequence int64  `json:"sequence"` // of the message
}

// Erased is a message whose body was erased.
type Erased struct {
	Entity   string `json:"entity"`
	Sequence int64  `json:"sequence"`
	Bytes    uint32 `json:"bytes"`            // size that the body had
	Before   bool   `json:"before,omitempty"` // the body was gone before
}

// Failure is every answer with a status of 400 or more.
type Failure struct {
	Error Error `json:"error"`
}

// Error says what is wrong with a request: the code for programs, the message for people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Arguments decodes the body of a request into a value with a field for each argument, and leaves
// the value unchanged if there is no body. It refuses a body that is not one JSON object, and
// members that are unknown or repeated.
func Arguments(body []byte, into any) error {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) == 0:
		return nil
	case len(body) > MaxBody:
		return fmt.Errorf("the body has more than %d bytes", MaxBody)
	case !utf8.Valid(body):
		return errors.New("the body is not UTF-8")
	case text[0] != '{':
		return errors.New("the body is not a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the body cannot be read: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body has more than one JSON object")
	}
	if name := twice(json.NewDecoder(bytes.NewReader(text))); name != "" {
		return fmt.Errorf("the body has the member %.20q twice", name)
	}
	return nil
}

// twice returns the name of a member that the next value has twice, in any spelling that names the
// same field; "": there is none. The value must be valid JSON.
func twice(d *json.Decoder) string {
	begin, _ := d.Token()
	if begin != json.Delim('{') && begin != json.Delim('[') {
		return ""
	}
	seen := map[string]bool{}
	for d.More() {
		if begin == json.Delim('{') {
			token, _ := d.Token()
			name, _ := token.(string)
			if seen[strings.ToLower(name)] {
				return name
			}
			seen[strings.ToLower(name)] = true
		}
		if name := twice(d); name != "" {
			return name
		}
	}
	_, _ = d.Token() // its end
	return ""
}

// Answer decodes an answer. It ignores unknown members: a newer broker may send more.
func Answer(body []byte, into any) error {
	if len(body) > MaxAnswer {
		return fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer is not the expected JSON: %w", err)
	}
	return nil
}
