// Package address names everything in a ledger: in commands, answers, log lines and errors, so that
// an address that one of them shows can be passed to another.
//
//	orders                   a queue or topic; weather/Subscriptions/rain a subscription
//	orders/$dlq              its dead-letter queue; orders/$DeadLetterQueue is the same, and orders/$transfer/$dlq that of transfers
//	orders#88114             the message with that sequence number; a sub-queue may precede the #
//	@0/1839977               a place: the frame at an LSN of a partition's log
package address

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxLength bounds a text that is read as an address, bytes: a subscription's path with any suffix
// is shorter.
const maxLength = 512

// Address names a place in a log, or an entity and perhaps a message of it.
type Address struct {
	Entity   string // path as given, without a sub-queue; "" for a place
	SubQueue event.SubQueue
	Number   event.SequenceNumber // of a message; 0: the address is that of the entity itself

	Place     bool // the address is a place, which the following fields name
	Partition uint16
	LSN       event.LSN
}

// suffixes of paths, in lower case, and the sub-queues that they name. A longer suffix comes before
// a shorter one that it ends with.
var suffixes = []struct {
	text string
	q    event.SubQueue
}{
	{"/$transfer/$deadletterqueue", event.TransferDeadLetter}, {"/$transfer/$dlq", event.TransferDeadLetter},
	{"/$deadletterqueue", event.DeadLetter}, {"/$dlq", event.DeadLetter},
}

// Parse parses an address.
func Parse(s string) (Address, error) {
	if len(s) > maxLength {
		return Address{}, fmt.Errorf("address of %d bytes; at most %d are allowed", len(s), maxLength)
	}
	if strings.HasPrefix(s, "@") {
		return parsePlace(s)
	}
	path, number, numbered := strings.Cut(s, "#")
	var a Address
	if numbered {
		n, err := decimal(number, math.MaxInt64)
		if err != nil || n == 0 {
			return Address{}, fmt.Errorf("%q: the # must be followed by a sequence number, as in orders#88114", s)
		}
		a.Number = event.SequenceNumber(n)
	}
	a.Entity = path
	for _, suffix := range suffixes {
		if cut := len(path) - len(suffix.text); cut >= 0 && strings.EqualFold(path[cut:], suffix.text) {
			a.Entity, a.SubQueue = path[:cut], suffix.q
			break
		}
	}
	if err := checkPath(a.Entity); err != nil {
		return Address{}, fmt.Errorf("%q: %w", s, err)
	}
	return a, nil
}

// checkPath refuses a text that cannot be a path, or that would control a terminal. Whether an
// entity may have the path is for the owner of the entities to decide.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("missing entity, such as orders, orders/$dlq or orders#88114")
	case strings.HasPrefix(path, "/"), strings.HasSuffix(path, "/"), strings.Contains(path, "//"):
		return fmt.Errorf("empty segment")
	case strings.Contains(path, "$"):
		return fmt.Errorf("unknown sub-queue; the sub-queues are $dlq and $transfer/$dlq")
	case !utf8.ValidString(path), strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '@' }):
		return fmt.Errorf("character that is not allowed in a path")
	}
	return nil
}

func parsePlace(s string) (Address, error) {
	partition, lsn, ok := strings.Cut(s[1:], "/")
	p, err := decimal(partition, math.MaxUint16)
	n, err2 := decimal(lsn, math.MaxInt64)
	if !ok || err != nil || err2 != nil {
		return Address{}, fmt.Errorf("%q: a place is a partition and an LSN, as in @0/1839977", s)
	}
	return Address{Place: true, Partition: uint16(p), LSN: event.LSN(n)}, nil
}

// decimal parses digits and nothing else: neither signs nor leading zeros, so that a number has
// only one spelling.
func decimal(s string, limit uint64) (uint64, error) {
	if s == "" || len(s) > 1 && s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err == nil && n > limit {
		err = strconv.ErrRange
	}
	return n, err
}

// Of returns the address of a message.
func Of(entity string, n event.SequenceNumber) Address { return Address{Entity: entity, Number: n} }

// At returns the address of a place.
func At[P ~uint16](partition P, lsn event.LSN) Address {
	return Address{Place: true, Partition: uint16(partition), LSN: lsn}
}

// String returns the address in the form that [Parse] reads.
func (a Address) String() string { return string(a.Append(make([]byte, 0, 64))) }

// Append appends the result of String.
func (a Address) Append(dst []byte) []byte {
	if a.Place {
		dst = strconv.AppendUint(append(dst, '@'), uint64(a.Partition), 10)
		return strconv.AppendUint(append(dst, '/'), uint64(a.LSN), 10)
	}
	dst = append(dst, a.Entity...)
	switch a.SubQueue {
	case event.DeadLetter:
		dst = append(dst, "/$dlq"...)
	case event.TransferDeadLetter:
		dst = append(dst, "/$transfer/$dlq"...)
	}
	if a.Number > 0 {
		dst = strconv.AppendUint(append(dst, '#'), uint64(a.Number), 10)
	}
	return dst
}

// Path returns the entity or sub-queue as clients of Service Bus name it.
func (a Address) Path() string {
	switch a.SubQueue {
	case event.DeadLetter:
		return a.Entity + "/$DeadLetterQueue"
	case event.TransferDeadLetter:
		return a.Entity + "/$Transfer/$DeadLetterQueue"
	}
	return a.Entity
}

// MarshalText lets JSON show addresses in readable form.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
