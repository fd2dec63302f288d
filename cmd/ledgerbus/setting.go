package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// kinds is a set of kinds of entities.
type kinds uint8

const (
	ofQueue        kinds = 1 << event.Queue
	ofTopic        kinds = 1 << event.Topic
	ofSubscription kinds = 1 << event.Subscription
)

func (k kinds) has(kind event.EntityKind) bool { return k>>kind&1 == 1 }

// setting is one property of an entity, as a flag and as a column of the output.
type setting struct {
	flag    string
	of      kinds
	element document.Element
	usage   string
	point   func(*event.Properties) any // to the property
}

// settingsOfEntities are all properties except access rules, in the order of the output
// (management-api.md 3.2 to 3.4).
var settingsOfEntities = []setting{
	{"status", ofQueue | ofTopic | ofSubscription, document.Status, "Active, Disabled, SendDisabled or ReceiveDisabled", func(p *event.Properties) any { return &p.Status }},
	{"lock-duration", ofQueue | ofSubscription, document.LockDuration, "how long a receiver holds a message, 5s to 5m", func(p *event.Properties) any { return &p.LockDuration }},
	{"max-delivery-count", ofQueue | ofSubscription, document.MaxDeliveryCount, "failed deliveries before a message is dead-lettered", func(p *event.Properties) any { return &p.MaxDeliveryCount }},
	{"default-message-time-to-live", ofQueue | ofTopic | ofSubscription, document.DefaultMessageTimeToLive, "longest life of a message", func(p *event.Properties) any { return &p.DefaultMessageTimeToLive }},
	{"dead-lettering-on-message-expiration", ofQueue | ofSubscription, document.DeadLetteringOnMessageExpiration, "keep expired messages in the dead-letter queue", func(p *event.Properties) any { return &p.DeadLetteringOnMessageExpiration }},
	{"dead-lettering-on-filter-error", ofSubscription, document.DeadLetteringOnFilterEvaluationExceptions, "keep messages on which a filter fails in the dead-letter queue", func(p *event.Properties) any { return &p.DeadLetteringOnFilterError }},
	{"requires-session", ofQueue | ofSubscription, document.RequiresSession, "messages belong to sessions; cannot be changed later", func(p *event.Properties) any { return &p.RequiresSession }},
	{"requires-duplicate-detection", ofQueue | ofTopic, document.RequiresDuplicateDetection, "drop messages whose id was seen before; cannot be changed later", func(p *event.Properties) any { return &p.RequiresDuplicateDetection }},
	{"duplicate-detection-window", ofQueue | ofTopic, document.DuplicateDetectionHistoryTimeWindow, "how long ids are remembered, 20s to 7d", func(p *event.Properties) any { return &p.DuplicateDetectionWindow }},
	{"max-size-megabytes", ofQueue | ofTopic, document.MaxSizeInMegabytes, "1024, 2048, 3072, 4096, 5120, or more in the premium tier", func(p *event.Properties) any { return &p.MaxSizeMegabytes }},
	{"max-message-size-kilobytes", ofQueue | ofTopic, document.MaxMessageSizeInKilobytes, "largest message; for the premium tier", func(p *event.Properties) any { return &p.MaxMessageSizeKilobytes }},
	{"auto-delete-on-idle", ofQueue | ofTopic | ofSubscription, document.AutoDeleteOnIdle, "delete the entity with its messages after this time without use, at least 5m", func(p *event.Properties) any { return &p.AutoDeleteOnIdle }},
	{"forward-to", ofQueue | ofSubscription, document.ForwardTo, "queue or topic for all messages; empty: none", func(p *event.Properties) any { return &p.ForwardTo }},
	{"forward-dead-lettered-messages-to", ofQueue | ofSubscription, document.ForwardDeadLetteredMessagesTo, "queue or topic for dead-lettered messages; empty: none", func(p *event.Properties) any { return &p.ForwardDeadLetteredMessagesTo }},
	{"enable-batched-operations", ofQueue | ofTopic | ofSubscription, document.EnableBatchedOperations, "let the broker store several operations at once", func(p *event.Properties) any { return &p.EnableBatchedOperations }},
	{"enable-partitioning", ofQueue | ofTopic, document.EnablePartitioning, "spread over partitions; cannot be changed later", func(p *event.Properties) any { return &p.EnablePartitioning }},
	{"support-ordering", ofQueue | ofTopic, document.SupportOrdering, "a hint that order matters", func(p *event.Properties) any { return &p.SupportOrdering }},
	{"enable-express", ofQueue | ofTopic, document.EnableExpress, "a hint that messages may be held in memory", func(p *event.Properties) any { return &p.EnableExpress }},
	{"filtering-before-publishing", ofTopic, document.FilteringMessagesBeforePublishing, "reject messages that no rule matches", func(p *event.Properties) any { return &p.FilteringBeforePublishing }},
	{"subscription-partitioning", ofTopic, document.EnableSubscriptionPartitioning, "kept and shown, without effect", func(p *event.Properties) any { return &p.SubscriptionPartitioning }},
	{"user-metadata", ofQueue | ofTopic | ofSubscription, document.UserMetadata, "text of up to 1024 characters", func(p *event.Properties) any { return &p.UserMetadata }},
}

// settingFlags returns flags for all properties of a kind of entity.
func settingFlags(kind event.EntityKind) []cli.Flag {
	const category = "Properties"
	var flags []cli.Flag
	for _, s := range settingsOfEntities {
		if !s.of.has(kind) {
			continue
		}
		switch s.point(new(event.Properties)).(type) {
		case *bool:
			flags = append(flags, &cli.BoolFlag{Name: s.flag, Usage: s.usage, Category: category, DisableDefaultText: true})
		default:
			flags = append(flags, &cli.StringFlag{Name: s.flag, Usage: s.usage, Category: category})
		}
	}
	if kind != event.Subscription {
		flags = append(flags,
			&cli.GenericFlag{Name: "access-rule", Value: new(list), Category: category, Usage: "NAME=RIGHT,… with the rights Send, Listen or Manage: a rule with a key pair for this entity only; the command makes new keys and keeps existing ones; repeatable"},
			&cli.GenericFlag{Name: "remove-access-rule", Value: new(list), Category: category, Usage: "NAME of an access rule to remove with its keys; repeatable"})
	}
	return flags
}

// list has the values of a repeatable flag. Unlike the slices of the flag package, it does not
// split at commas.
type list []string

func (l *list) Set(value string) error { *l = append(*l, value); return nil }
func (l *list) String() string         { return strings.Join(*l, " ") }

func listOf(c *cli.Context, name string) []string {
	if l, ok := c.Generic(name).(*list); ok {
		return *l
	}
	return nil
}

// applySettings changes the properties with flags, and reports whether there were any.
func applySettings(c *cli.Context, e *admin.Entity) (given bool, err error) {
	for _, s := range settingsOfEntities {
		if !s.of.has(e.Kind) || !c.IsSet(s.flag) {
			continue
		}
		given = true
		e.Present.Add(s.element)
		if on, isSwitch := s.point(&e.Properties).(*bool); isSwitch {
			*on = c.Bool(s.flag)
			continue
		}
		if err := assign(s.point(&e.Properties), c.String(s.flag)); err != nil {
			return false, usageError{fmt.Errorf("--%s: %w", s.flag, err)}
		}
	}
	if e.Kind == event.Subscription {
		return given, nil
	}
	changed, err := applyAccessRules(c, &e.Properties)
	if changed {
		e.Present.Add(document.AuthorizationRules)
	}
	return given || changed, err
}

// assign reads the text of a flag.
func assign(into any, text string) error {
	switch into := into.(type) {
	case *string:
		*into = text
	case *uint32:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*into = uint32(n)
	case *time.Duration:
		d, err := parseSpan(text)
		if err != nil {
			return err
		}
		*into = d
	case *event.Status:
		for s := event.Active; s <= event.ReceiveDisabled; s++ {
			if strings.EqualFold(text, s.String()) {
				*into = s
				return nil
			}
		}
		return fmt.Errorf("%q is not one of Active, Disabled, SendDisabled, ReceiveDisabled", text)
	}
	return nil
}

// spans are the durations that a property of an entity may have.
var spans = quantity.Durations{Unlimited: true}

// parseSpan reads a duration of [spans], or in ISO 8601 as Service Bus writes it (PT90S).
func parseSpan(text string) (time.Duration, error) {
	if strings.HasPrefix(text, "P") {
		d, ok := document.ParseDuration(text)
		if !ok {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 14d, PT1H or unlimited", text)
		}
		return d, nil
	}
	if unlimited := quantity.FormatDuration(quantity.Unlimited); strings.EqualFold(text, unlimited) {
		text = unlimited
	}
	return spans.Parse(text)
}

// field prints the property.
func (s setting) field(p *event.Properties) print.Field {
	var shown any
	switch v := s.point(p).(type) {
	case *string:
		shown = *v
	case *bool:
		shown = output.Shown{Text: map[bool]string{true: "yes", false: "no"}[*v], Value: *v}
	case *uint32:
		shown = uint64(*v)
	case *time.Duration:
		shown = output.Shown{Text: quantity.FormatDuration(*v), Value: string(event.AppendDuration(nil, *v))}
	case *event.Status:
		shown = v.String()
	}
	return print.Named(camel(s.flag), shown)
}

// camel returns the name of a flag in JSON: lockDuration for lock-duration.
func camel(flag string) string {
	parts := strings.Split(flag, "-")
	for i := range parts[1:] {
		parts[i+1] = strings.ToUpper(parts[i+1][:1]) + parts[i+1][1:]
	}
	return strings.Join(parts, "")
}

// applyAccessRules adds and removes access rules of an entity.
func applyAccessRules(c *cli.Context, p *event.Properties) (changed bool, err error) {
	at := func(name string) int {
		return slices.IndexFunc(p.AccessRules, func(r event.AccessRule) bool { return strings.EqualFold(r.Name, name) })
	}
	for _, name := range listOf(c, "remove-access-rule") {
		i := at(name)
		if i < 0 {
			return false, usageError{fmt.Errorf("--remove-access-rule: there is no access rule %q", name)}
		}
		p.AccessRules = slices.Delete(p.AccessRules, i, i+1)
		changed = true
	}
	for _, text := range listOf(c, "access-rule") {
		name, rights, err := parseAccessRule(text)
		if err != nil {
			return false, usageError{fmt.Errorf("--access-rule: %w", err)}
		}
		i := at(name)
		if i < 0 {
			p.AccessRules = append(p.AccessRules, event.AccessRule{Name: name, Primary: newKey(), Secondary: newKey()})
			i = len(p.AccessRules) - 1
		}
		p.AccessRules[i].Rights = rights
		changed = true
	}
	return changed, nil
}

func parseAccessRule(text string) (name string, rights event.Rights, err error) {
	name, names, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", nil, fmt.Errorf("%q is not NAME=RIGHT,RIGHT", text)
	}
	for word := range strings.SplitSeq(names, ",") {
		right := event.Right(0)
		for r := event.Manage; r <= event.Listen; r++ {
			if strings.EqualFold(word, r.String()) {
				right = r
			}
		}
		if right == 0 {
			return "", nil, fmt.Errorf("%q is not one of the rights Send, Listen, Manage", word)
		}
		rights = append(rights, right)
	}
	return name, rights, nil
}

// newKey makes a key like those of the service: 32 random bytes.
func newKey() event.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return event.Secret(base64.StdEncoding.EncodeToString(b[:]))
}

// accessField prints access rules, and their keys only if withKeys is set.
func accessField(rules []event.AccessRule, withKeys bool) print.Field {
	type shown struct {
		Name         string       `json:"name"`
		Rights       event.Rights `json:"rights"`
		PrimaryKey   string       `json:"primaryKey,omitempty"`
		SecondaryKey string       `json:"secondaryKey,omitempty"`
	}
	all, texts := make([]shown, 0, len(rules)), []string(nil)
	for _, r := range rules {
		s := shown{Name: r.Name, Rights: r.Rights}
		var rights []string
		for _, right := range r.Rights {
			rights = append(rights, right.String())
		}
		t := r.Name + "=" + strings.Join(rights, ",")
		if withKeys {
			s.PrimaryKey, s.SecondaryKey = r.Primary.Reveal(), r.Secondary.Reveal()
			t += fmt.Sprintf(" (primary key %s, secondary key %s)", s.PrimaryKey, s.SecondaryKey)
		}
		all, texts = append(all, s), append(texts, t)
	}
	return print.Named("accessRules", output.Shown{Text: strings.Join(texts, "; "), Value: all})
}
