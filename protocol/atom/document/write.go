package document

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// AppendEntry appends an entry. In a request it writes only the content.
func AppendEntry(b []byte, e *Entry, f Format) []byte {
	return appendEntry(b, e, f, ` xmlns="`+atomSpace+`"`)
}

// AppendFeed appends a page of a list: exactly the links self and next, in this order
// (management-api.md 2.6).
func AppendFeed(b []byte, feed *Feed, f Format) []byte {
	b = append(b, `<feed xmlns="`+atomSpace+`"><title type="text">`...)
	b = appendEscaped(b, feed.Title)
	b = append(b, "</title>"...)
	b = appendElement(b, "id", feed.ID)
	b = append(appendWholeTime(append(b, "<updated>"...), feed.Updated), "</updated>"...)
	b = appendLink(b, "self", feed.Self)
	b = appendLink(b, "next", feed.Next)
	for i := range feed.Entries {
		e := &feed.Entries[i]
		attrs := ""
		if e.Base != "" {
			attrs = string(append(appendEscaped([]byte(` xml:base="`), e.Base), '"'))
		}
		b = appendEntry(b, e, f, attrs)
	}
	return append(b, "</feed>"...)
}

// AppendNotFound appends the feed for a path that does not exist (management-api.md 2.5).
func AppendNotFound(b []byte, id string, now event.Time) []byte {
	b = append(b, `<feed xmlns="`+atomSpace+`"><title type="text">`+notFoundTitle+`</title>`+
		`<subtitle type="text">This is the list of publicly-listed services currently available.</subtitle>`...)
	b = appendElement(b, "id", id)
	b = append(appendWholeTime(append(b, "<updated>"...), now), "</updated>"...)
	return append(b, "<generator>Service Bus 1.1</generator></feed>"...)
}

// AppendError appends an error.
func AppendError(b []byte, e *Error) []byte {
	b = append(strconv.AppendInt(append(b, "<Error><Code>"...), int64(e.Code), 10), "</Code>"...)
	return append(appendElement(b, "Detail", e.Detail), "</Error>"...)
}

func appendEntry(b []byte, e *Entry, f Format, attrs string) []byte {
	b = append(append(append(b, "<entry"...), attrs...), '>')
	if f.Form != Request {
		b = appendElement(b, "id", e.ID)
		b = append(appendEscaped(append(b, `<title type="text">`...), e.Title), "</title>"...)
		b = append(appendWholeTime(append(b, "<published>"...), e.Published), "</published>"...)
		b = append(appendWholeTime(append(b, "<updated>"...), e.Updated), "</updated>"...)
		if e.Author != "" {
			b = append(appendElement(append(b, "<author>"...), "name", e.Author), "</author>"...)
		}
		b = appendLink(b, "self", e.Self)
	}
	b = append(b, `<content type="application/xml">`...)
	switch {
	case e.Entity != nil:
		b = e.Entity.append(b, f)
	case e.Rule != nil:
		b = append(b, "<RuleDescription"+descriptionSpaces...)
		b = append(appendRule(b, e.Rule, f.Form != Request), "</RuleDescription>"...)
	case e.Namespace != nil:
		b = e.Namespace.append(b)
	}
	return append(b, "</content></entry>"...)
}

// appendLink appends a link, or nothing if the URL is empty.
func appendLink(b []byte, rel, href string) []byte {
	if href == "" {
		return b
	}
	b = append(append(append(b, `<link rel="`...), rel...), `" href="`...)
	return append(appendEscaped(b, href), `"/>`...)
}

const descriptionSpaces = ` xmlns="` + serviceSpace + `" xmlns:i="` + instanceSpace + `">`

func (n *Namespace) append(b []byte) []byte {
	b = append(b, "<NamespaceInfo"+descriptionSpaces...)
	b = append(appendTime(append(b, "<CreatedTime>"...), n.CreatedAt), "</CreatedTime>"...)
	b = appendElement(b, "MessagingSKU", n.Tier)
	if n.Tier == "Premium" { // clients need it for Premium, and only there (management-api.md 2.8)
		b = appendNumber(b, "MessagingUnits", int64(max(1, n.MessagingUnits)))
	}
	b = append(appendTime(append(b, "<ModifiedTime>"...), n.ModifiedAt), "</ModifiedTime>"...)
	b = appendElement(b, "Name", n.Name)
	return append(appendElement(b, "NamespaceType", "Messaging"), "</NamespaceInfo>"...)
}

func (d *Description) append(b []byte, f Format) []byte {
	b = append(append(append(append(b, '<'), d.Kind.String()...), "Description"...), descriptionSpaces...)
	for _, e := range of[d.Kind] {
		if d.shows(e, f) {
			b = d.appendElement(b, e, f)
		}
	}
	return append(append(append(b, "</"...), d.Kind.String()...), "Description>"...)
}

func (d *Description) appendElement(b []byte, e Element, f Format) []byte {
	switch e { // elements with more than a text
	case AuthorizationRules:
		return appendAccessRules(b, d.Properties.AccessRules, f.Form != Request)
	case CountDetails:
		return d.appendCounts(b)
	case DefaultRuleDescription:
		if d.DefaultRule == nil {
			return b
		}
		b = append(b, "<DefaultRuleDescription>"...)
		return append(appendRule(b, d.DefaultRule, false), "</DefaultRuleDescription>"...)
	}
	b = append(append(append(b, '<'), e.String()...), '>')
	switch p := property(&d.Properties, e).(type) {
	case *time.Duration:
		b = event.AppendDuration(b, *p)
	case *uint32:
		b = strconv.AppendUint(b, uint64(*p), 10)
	case *bool:
		b = strconv.AppendBool(b, *p)
	case *string:
		b = appendEscaped(b, *p)
	default:
		b = d.appendShown(b, e, f)
	}
	return append(append(append(b, "</"...), e.String()...), '>')
}

// appendShown appends the text of an element that is not a simple property.
func (d *Description) appendShown(b []byte, e Element, f Format) []byte {
	switch e {
	case Status:
		return append(b, d.Properties.Status.String()...)
	case SizeInBytes:
		return strconv.AppendInt(b, d.Runtime.held(d.Runtime.SizeBytes), 10)
	case MessageCount:
		return strconv.AppendInt(b, d.Runtime.held(int64(d.Runtime.Total())), 10)
	case SubscriptionCount:
		return strconv.AppendInt(b, int64(d.Runtime.Subscriptions), 10)
	case SQLFilterCount:
		return strconv.AppendInt(b, int64(d.Runtime.SQLFilters), 10)
	case CorrelationFilterCount:
		return strconv.AppendInt(b, int64(d.Runtime.CorrelationFilters), 10)
	case IsAnonymousAccessible:
		return append(b, "false"...)
	case IsClientAffine:
		return strconv.AppendBool(b, d.ClientAffine)
	case EntityAvailabilityStatus:
		if d.Runtime.Unknown || d.Runtime.Limited {
			return append(b, "Limited"...)
		}
		return append(b, "Available"...)
	case CreatedAt:
		return appendTime(b, d.CreatedAt)
	case UpdatedAt:
		return appendTime(b, d.UpdatedAt)
	case AccessedAt:
		if f.Form == Written {
			// the service's answer to a PUT of a subscription
			return append(b, "0001-01-01T00:00:00"...)
		}
		return appendTime(b, d.AccessedAt)
	}
	return b
}

// appendCounts appends the counters. Readers take the prefix from the one attribute, and 32 bits of
// each number (management-api.md 3.5, 7).
func (d *Description) appendCounts(b []byte) []byte {
	prefix := "d2p1"
	if d.Kind == event.Subscription {
		prefix = "d3p1"
	}
	b = append(append(append(b, "<CountDetails xmlns:"...), prefix...), `="`+countSpace+`">`...)
	r := &d.Runtime
	for _, c := range [...]struct {
		name string
		n    int
	}{
		{"ActiveMessageCount", r.Active}, {"DeadLetterMessageCount", r.DeadLetter}, {"ScheduledMessageCount", r.Scheduled},
		{"TransferMessageCount", r.Transfer}, {"TransferDeadLetterMessageCount", r.TransferDeadLetter},
	} {
		b = appendNumber(b, prefix+":"+c.name, r.held(int64(min(c.n, math.MaxInt32))))
	}
	return append(b, "</CountDetails>"...)
}

// uncounted means an unknown count. Clients fail without a count, and a zero would say that the
// entity is empty (docs/decisions/0018).
const uncounted = -1

// held returns a count or size as it is written.
func (r *Runtime) held(n int64) int64 {
	if r.Unknown {
		return uncounted
	}
	return n
}

func appendAccessRules(b []byte, rules []event.AccessRule, shown bool) []byte {
	if len(rules) == 0 {
		return append(b, "<AuthorizationRules/>"...)
	}
	b = append(b, "<AuthorizationRules>"...)
	for i := range rules {
		r := &rules[i]
		b = append(b, `<AuthorizationRule i:type="SharedAccessAuthorizationRule">`+
			`<ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights>`...)
		for _, right := range r.Rights {
			b = appendElement(b, "AccessRights", right.String())
		}
		b = append(b, "</Rights>"...)
		if r.CreatedAt != 0 { // the service omits a time that is not set
			b = append(appendTime(append(b, "<CreatedTime>"...), r.CreatedAt), "</CreatedTime>"...)
		}
		if r.ModifiedAt != 0 {
			b = append(appendTime(append(b, "<ModifiedTime>"...), r.ModifiedAt), "</ModifiedTime>"...)
		}
		b = appendElement(b, "KeyName", r.Name)
		if shown || r.Primary != "" {
			b = appendElement(b, "PrimaryKey", r.Primary.Reveal())
		}
		if shown || r.Secondary != "" {
			b = appendElement(b, "SecondaryKey", r.Secondary.Reveal())
		}
		b = append(b, "</AuthorizationRule>"...)
	}
	return append(b, "</AuthorizationRules>"...)
}

// appendWholeTime appends a time in whole seconds, as entries and feeds have it.
func appendWholeTime(b []byte, t event.Time) []byte {
	return appendTime(b, t-t%1000)
}

func appendElement(b []byte, name, text string) []byte {
	b = append(append(append(b, '<'), name...), '>')
	b = appendEscaped(b, text)
	return append(append(append(b, "</"...), name...), '>')
}

func appendNumber(b []byte, name string, n int64) []byte {
	b = append(append(append(b, '<'), name...), '>')
	b = strconv.AppendInt(b, n, 10)
	return append(append(append(b, "</"...), name...), '>')
}

// appendEscaped appends text for an element or an attribute. Characters that XML cannot hold become
// U+FFFD.
func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '"':
			b = append(b, "&quot;"...)
		case r == '\r': // a reader would turn it into a line feed
			b = append(b, "&#xD;"...)
		case r == '\n' || r == '\t':
			b = append(b, byte(r))
		case r < ' ' || r == 0xFFFE || r == 0xFFFF || r == utf8.RuneError && n == 1:
			b = append(b, "\ufffd"...)
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return b
}
