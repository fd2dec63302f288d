package document

import (
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Parse parses an entry, a feed or an error. Its errors wrap [ErrTooLarge] or [ErrMalformed], or
// are a [*ValueError].
func Parse(data []byte, o Options) (*Document, error) {
	root, err := readTree(data, o.Limits)
	if err != nil {
		return nil, err
	}
	switch root.name {
	case "entry":
		e, err := o.entry(root)
		return &Document{Entry: e}, err
	case "feed":
		f, err := o.feed(root)
		return &Document{Feed: f}, err
	case "Error":
		code, _ := strconv.Atoi(root.find("Code")) // 0 if it is not a number
		return &Document{Error: &Error{Code: code, Detail: root.find("Detail")}}, nil
	}
	return nil, invalid("entry", "The document is neither an entry nor a feed.")
}

func (o *Options) feed(n *node) (*Feed, error) {
	f := &Feed{Title: n.find("title"), ID: n.find("id"), Updated: lenientTime(n.find("updated"))}
	for _, c := range n.children {
		switch c.name {
		case "link":
			switch c.attr("rel") {
			case "self":
				f.Self = c.attr("href")
			case "next":
				f.Next = c.attr("href")
			}
		case "entry":
			e, err := o.entry(c)
			if err != nil {
				return nil, err
			}
			f.Entries = append(f.Entries, *e)
		}
	}
	return f, nil
}

func (o *Options) entry(n *node) (*Entry, error) {
	e := &Entry{
		ID: n.find("id"), Title: n.find("title"),
		Published: lenientTime(n.find("published")), Updated: lenientTime(n.find("updated")),
	}
	if author := n.child("author"); author != nil {
		e.Author = author.find("name")
	}
	for _, c := range n.children {
		if c.name == "link" && c.attr("rel") == "self" {
			e.Self = c.attr("href")
		}
	}
	content := n.child("content")
	if content == nil {
		return nil, invalid("content", "The entry has no content.")
	}
	var err error
	for _, c := range content.children {
		switch c.name {
		case "QueueDescription":
			e.Entity, err = o.description(event.Queue, c)
		case "TopicDescription":
			e.Entity, err = o.description(event.Topic, c)
		case "SubscriptionDescription":
			e.Entity, err = o.description(event.Subscription, c)
		case "RuleDescription":
			e.Rule, err = readRule(c)
		case "NamespaceInfo":
			e.Namespace = readNamespace(c)
		default:
			continue
		}
		return e, err
	}
	return nil, invalid("content", "The content of the entry is not a description.")
}

func readNamespace(n *node) *Namespace {
	units, _ := strconv.Atoi(n.find("MessagingUnits")) // 0: none
	return &Namespace{
		Name: n.find("Name"), Tier: n.find("MessagingSKU"), MessagingUnits: units,
		CreatedAt: lenientTime(n.find("CreatedTime")), ModifiedAt: lenientTime(n.find("ModifiedTime")),
	}
}

// lenientTime parses a time that nothing depends on.
func lenientTime(s string) event.Time {
	t, ok := parseTime(s)
	if !ok {
		return 0
	}
	return t
}

// description parses the description of an entity. If an element is repeated, the first one counts.
func (o *Options) description(kind event.EntityKind, n *node) (*Description, error) {
	d := &Description{Kind: kind}
	if o.Defaults != nil {
		d.Properties = o.Defaults(kind)
	}
	for _, c := range n.children {
		e, ok := elementsByName[c.name]
		if !ok || !known[kind].Has(e) || d.Present.Has(e) || c.isNil() {
			continue
		}
		if (e == ForwardTo || e == ForwardDeadLetteredMessagesTo) && c.trimmed() == "" || e == UserMetadata && c.raw() == "" {
			continue // neither the target nor its metadata
		}
		d.Present.Add(e)
		if err := d.read(e, c); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *Description) read(e Element, n *node) (err error) {
	text := n.trimmed()
	switch p := property(&d.Properties, e).(type) {
	case *time.Duration:
		return readDuration(e, text, p)
	case *uint32:
		return readCount(e, text, p)
	case *bool:
		return readFlag(e, text, p)
	case *string:
		if *p = text; e == UserMetadata {
			*p = n.raw()
		}
		return nil
	}
	switch e {
	case Status:
		return readStatus(text, &d.Properties.Status)
	case AuthorizationRules:
		d.Properties.AccessRules, err = readAccessRules(n)
		return err
	case DefaultRuleDescription:
		d.DefaultRule, err = readRule(n)
		return err
	case IsClientAffine:
		return readFlag(e, text, &d.ClientAffine)
	}
	d.readShown(e, n)
	return nil
}

// readShown parses an element that only answers have: a client needs it, and requests repeat it in
// any form.
func (d *Description) readShown(e Element, n *node) {
	number := func(s string) int {
		v, _ := strconv.Atoi(s) // 0 if it is not a number
		if v < 0 {
			d.Runtime.Unknown = true
		}
		return max(0, v)
	}
	text := n.trimmed()
	switch e {
	case SizeInBytes:
		d.Runtime.SizeBytes = int64(number(text))
	case SubscriptionCount:
		d.Runtime.Subscriptions = number(text)
	case SQLFilterCount:
		d.Runtime.SQLFilters = number(text)
	case CorrelationFilterCount:
		d.Runtime.CorrelationFilters = number(text)
	case EntityAvailabilityStatus:
		d.Runtime.Limited = text == "Limited"
	case CreatedAt:
		d.CreatedAt = lenientTime(text)
	case UpdatedAt:
		d.UpdatedAt = lenientTime(text)
	case AccessedAt:
		d.AccessedAt = lenientTime(text)
	case CountDetails:
		r := &d.Runtime
		r.Active, r.DeadLetter = number(n.find("ActiveMessageCount")), number(n.find("DeadLetterMessageCount"))
		r.Scheduled, r.Transfer = number(n.find("ScheduledMessageCount")), number(n.find("TransferMessageCount"))
		r.TransferDeadLetter = number(n.find("TransferDeadLetterMessageCount"))
	}
}

func readDuration(e Element, text string, into *time.Duration) error {
	d, ok := ParseDuration(text)
	if !ok {
		return invalid(e.String(), "The value '%s' of the property '%s' is not a duration of days, hours, minutes and seconds such as P1DT12H.", clip(text), e)
	}
	*into = d
	return nil
}

func readCount(e Element, text string, into *uint32) error {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return invalid(e.String(), "The value '%s' of the property '%s' is not a number in its range.", clip(text), e)
	}
	*into = uint32(n)
	return nil
}

func readFlag(e Element, text string, into *bool) error {
	b, ok := parseBool(text)
	if !ok {
		return invalid(e.String(), "The value '%s' of the property '%s' is neither true nor false.", clip(text), e)
	}
	*into = b
	return nil
}

func readStatus(text string, into *event.Status) error {
	for s := event.Active; s <= event.ReceiveDisabled; s++ {
		if strings.EqualFold(text, s.String()) {
			*into = s
			return nil
		}
	}
	return invalid("Status", "The value '%s' of the property 'Status' is not one of Active, Disabled, SendDisabled, ReceiveDisabled.", clip(text))
}

func readAccessRules(n *node) ([]event.AccessRule, error) {
	var rules []event.AccessRule
	for _, c := range n.children {
		if c.name != "AuthorizationRule" || c.isNil() {
			continue
		}
		r := event.AccessRule{
			Name: c.find("KeyName"), Primary: event.Secret(c.find("PrimaryKey")), Secondary: event.Secret(c.find("SecondaryKey")),
			CreatedAt: lenientTime(c.find("CreatedTime")), ModifiedAt: lenientTime(c.find("ModifiedTime")),
		}
		if rights := c.child("Rights"); rights != nil {
			for _, g := range rights.children {
				if g.name != "AccessRights" {
					continue
				}
				right, ok := readRight(g.trimmed())
				if !ok {
					return nil, invalid("AuthorizationRules", "The right '%s' of the authorization rule '%s' is not one of Manage, Send, Listen.", clip(g.trimmed()), clip(r.Name))
				}
				r.Rights = append(r.Rights, right)
			}
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func readRight(text string) (event.Right, bool) {
	for r := event.Manage; r <= event.Listen; r++ {
		if strings.EqualFold(text, r.String()) {
			return r, true
		}
	}
	return 0, false
}

// clip shortens a client's text for an error.
func clip(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
