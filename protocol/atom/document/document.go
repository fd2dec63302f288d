package document

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Version is an api-version, which decides which elements descriptions show (management-api.md
// 1.3). Requests are read in the same way in all versions.
type Version uint8

const (
	V2017 Version = iota // 2017-04
	V2021                // 2021-05: message size, client affinity
	V2024                // 2024-05: filter counts
)

// ParseVersion parses an api-version. Every year and month from 2013-07 means the nearest known
// version that is not later, or 2017-04; false: s is not a version.
func ParseVersion(s string) (Version, bool) {
	if len(s) != 7 || s[4] != '-' || strings.Trim(s[:4]+s[5:], "0123456789") != "" {
		return 0, false
	}
	switch month := s[5:]; {
	case month < "01" || month > "12" || s < "2013-07":
		return 0, false
	case s < "2021-05":
		return V2017, true
	case s < "2024-05":
		return V2021, true
	}
	return V2024, true
}

// Form is the purpose that a description is written for.
type Form uint8

const (
	Read    Form = iota // the answer to GET, alone or in a feed: everything
	Written             // the answer to PUT: no counters (management-api.md 2.3)
	Request             // the body of PUT: the writable elements of Present
)

// Format says how documents are written.
type Format struct {
	Version Version
	Form    Form
}

// Document is the result of [Parse]: exactly one field is not nil.
type Document struct {
	Entry *Entry
	Feed  *Feed
	Error *Error
}

// Entry is one entity, rule or namespace with its description; exactly one description is not nil.
// In a request the other fields are empty.
type Entry struct {
	ID        string // absolute URL
	Base      string // in a feed: the feed's URL
	Title     string // path of a queue or topic, name of anything else
	Published event.Time
	Updated   event.Time
	Author    string // name of the namespace; "": none
	Self      string // URL; "": no link

	Entity    *Description
	Rule      *event.Rule
	Namespace *Namespace
}

// Feed is a page of a list, or the answer to a GET of a path that does not exist.
type Feed struct {
	Title   string // Queues, Topics, Subscriptions, Rules
	ID      string // URL
	Updated event.Time
	Self    string
	Next    string // URL of the next page; "": this is the last one
	Entries []Entry
}

// notFoundTitle is the title of the feed for a path that does not exist; clients look for it
// (management-api.md 2.5).
const notFoundTitle = "Publicly Listed Services"

// NotFound reports whether a feed is the answer for a path that does not exist.
func (f *Feed) NotFound() bool { return f.Title == notFoundTitle && len(f.Entries) == 0 }

// Error is the body of an answer with a status of 400 or more (management-api.md 2.10).
type Error struct {
	Code   int
	Detail string
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Detail) }

// Namespace describes the namespace (management-api.md 2.8).
type Namespace struct {
	Name           string
	Tier           string // Basic, Standard, Premium
	MessagingUnits int    // only for Premium
	CreatedAt      event.Time
	ModifiedAt     event.Time
}

// Description describes a queue, topic or subscription (management-api.md 3.2 to 3.4).
type Description struct {
	Kind       event.EntityKind
	Properties event.Properties
	// Present are the elements that the document has, or that a request will have.
	Present Elements
	// CreatedAt, UpdatedAt and AccessedAt are written, and not read from requests. 0: never.
	CreatedAt, UpdatedAt, AccessedAt event.Time
	Runtime                          Runtime
	// ClientAffine marks the shared subscriptions of JMS.
	ClientAffine bool
	// DefaultRule is the default rule in a request to create a subscription; nil: $Default.
	DefaultRule *event.Rule
}

// Runtime has the counts and the size of an entity (management-api.md 3.5).
type Runtime struct {
	Active, DeadLetter, Scheduled, Transfer, TransferDeadLetter int

	SizeBytes          int64
	Subscriptions      int // of a topic, as are the next two
	SQLFilters         int
	CorrelationFilters int
	// Unknown is set if the broker does not know the counts of messages and the size, which are 0
	// here. They are written as -1.
	Unknown bool
	// Limited is set if some partitions of the entity do not serve, and are not counted.
	Limited bool
}

// Total returns the number of all messages.
func (r *Runtime) Total() int {
	return r.Active + r.DeadLetter + r.Scheduled + r.Transfer + r.TransferDeadLetter
}

// Limits bounds the input.
type Limits struct {
	Bytes    int
	Depth    int
	Elements int
}

var (
	// RequestLimits are the limits of the server (reliability.md S28).
	RequestLimits = Limits{Bytes: 64 << 10, Depth: 32, Elements: 1000}
	// ResponseLimits have room for a page of 100 entities or rules of maximum size.
	ResponseLimits = Limits{Bytes: 16 << 20, Depth: 32, Elements: 1 << 20}
)

// Options says how documents are read.
type Options struct {
	Limits Limits
	// Defaults returns the properties of a kind of entity that apply if a document does not mention
	// them; nil: zero values.
	Defaults func(event.EntityKind) event.Properties
}

// Errors of [Parse] that do not concern a single value.
var (
	ErrTooLarge  = errors.New("document: larger than allowed")
	ErrMalformed = errors.New("document: malformed")
)

// ValueError is an element with invalid content.
type ValueError struct {
	Element string
	Text    string // a sentence for the client
}

func (e *ValueError) Error() string { return "document: " + e.Text }

func invalid(element, format string, args ...any) *ValueError {
	return &ValueError{Element: element, Text: fmt.Sprintf(format, args...)}
}
