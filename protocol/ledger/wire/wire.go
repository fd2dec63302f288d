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

// Prefix is what the paths of all requests begin with. No entity can have such a name.
const Prefix = "/$ledger"

// ContentType is that of every body and every answer.
const ContentType = "application/json"

// MaxBody bounds the body of a request, and MaxAnswer that of an answer, bytes.
const (
	MaxBody   = 8 << 10
	MaxAnswer = 1 << 20
)

// A backup is the one answer that is no JSON: a tar archive, with headers that say which backup it
// is, of what moment, and about how many bytes there are in it.
const (
	BackupType  = "application/x-tar"
	BackupID    = "X-Ledgerbus-Backup-Id"
	BackupTime  = "X-Ledgerbus-Backup-Time"
	BackupBytes = "X-Ledgerbus-Backup-Bytes"
)

// LinesType is that of answers about the past: a JSON object per line, each a [Line], as they are
// found. MaxLine bounds one, bytes.
const (
	LinesType = "application/x-ndjson"
	MaxLine   = 1 << 20
)

// Line is a line of an answer about the past.
type Line struct {
	// answer, row, note, next, or one of those below
	Part   string          `json:"part"`
	Text   string          `json:"text,omitempty"`   // for people
	Fields json.RawMessage `json:"fields,omitempty"` // for programs: an object
	Code   string          `json:"code,omitempty"`   // of Failed: that of an [Error]
}

// The parts of lines that are not part of the answer itself. One that ends with neither End nor
// Failed broke off.
const (
	Waiting = "wait"   // nothing was found for some seconds; more comes
	End     = "end"    // this was all
	Failed  = "failed" // there is more, which cannot be told
)

// AppendLine appends a line as it is sent, with its end. Fields have to be JSON without line ends.
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

// ReadLine reads a line. Its fields are checked, and stay JSON. Members that are not known are left
// out: a newer broker may say more.
func ReadLine(text []byte, l *Line) error {
	*l = Line{}
	if len(text) > MaxLine {
		return fmt.Errorf("a line has more than %d bytes", MaxLine)
	}
	if !json.Valid(text) {
		return errors.New("a line is not JSON")
	}
	all := gjson.ParseBytes(text)
	if !all.IsObject() {
		return errors.New("a line is not a JSON object")
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
			err = fmt.Errorf("member %s of a line is of another type: %.40s", name.Str, value.Raw)
		}
		return err == nil
	})
	return err
}

// Partitions is the answer to a list.
type Partitions struct {
	Partitions []Partition `json:"partitions"`
}

// Partition is how a partition of the log is.
type Partition struct {
	ID    int        `json:"id"`
	State string     `json:"state"`           // serving, starting, fenced or refused
	Since *time.Time `json:"since,omitempty"` // when the state began; nil: nobody knows
	// one line; "" while it serves and nothing that it has stored is known to be damaged
	Cause string `json:"cause,omitempty"`
	// the access rule or subject that asked for the state; "": nobody did
	By string `json:"by,omitempty"`
	// Scrubbed is when all of its log had been read again; nil: it has not been yet.
	Scrubbed *time.Time `json:"scrubbed,omitempty"`
}

// HistoryPolicies is how long history is kept.
type HistoryPolicies struct {
	Namespace NamespaceHistory `json:"namespace"` // where no policy says otherwise
	Policies  []HistoryPolicy  `json:"policies"`  // the most specific one first
}

// NamespaceHistory is what settings say, or what holds without them.
type NamespaceHistory struct {
	HistoryPolicy
	Share int `json:"share"` // percent of the disk that all history may take
	// history is kept even when sends have to be refused for want of room
	BeforeSends bool `json:"beforeSends"`
}

// HistoryPolicy is how long history of the entities that a pattern matches is kept: a time such as
// 7d or 36h, none, unlimited, or "" where it says nothing.
type HistoryPolicy struct {
	Pattern string `json:"pattern,omitempty"`
	Events  string `json:"events,omitempty"`
	Bodies  string `json:"bodies,omitempty"`
	Undo    string `json:"undo,omitempty"`
}

// Erase says which message's body is to be erased.
type Erase struct {
	Entity   string `json:"entity"`   // path; a dead-letter queue has the messages of its entity
	Sequence int64  `json:"sequence"` // of the message
}

// Erased is a message without a body.
type Erased struct {
	Entity   string `json:"entity"`
	Sequence int64  `json:"sequence"`
	Bytes    uint32 `json:"bytes"`            // that the body had
	Before   bool   `json:"before,omitempty"` // it was gone already
}

// Failure is every answer with a status of 400 or more.
type Failure struct {
	Error Error `json:"error"`
}

// Error says what is wrong with a request: the code to programs, the message to people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Arguments reads the body of a request into a value that has a field for each argument, which is
// left as it is where there is no body. It refuses whatever is not one JSON object of members that
// are known, each of them once.
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
		return errors.New("there is more in the body than one JSON object")
	}
	if name := twice(json.NewDecoder(bytes.NewReader(text))); name != "" {
		return fmt.Errorf("the body has the member %.20q twice", name)
	}
	return nil
}

// twice returns the name of a member that the next value has twice, in any spelling that names the
// same field; "": it has none. The value is valid JSON.
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

// Answer reads an answer. Members that are not known are left out: a newer broker may say more.
func Answer(body []byte, into any) error {
	if len(body) > MaxAnswer {
		return fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer is not the JSON expected: %w", err)
	}
	return nil
}
