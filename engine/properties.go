package engine

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Ranges of the properties of entities (semantics.md 1.3, management-api.md 3).
const (
	usualLockDuration  = time.Minute
	minLockDuration    = 5 * time.Second
	maxLockDuration    = 5 * time.Minute
	minTimeToLive      = time.Second
	minDuplicateWindow = 20 * time.Second
	maxDuplicateWindow = 7 * 24 * time.Hour
	minIdle            = 5 * time.Minute
	maxMaxDelivery     = 1<<31 - 1
	maxMetadata        = 1024 // characters
	maxForward         = 1024 // bytes of a URL
	maxAccessRules     = 12
	maxAccessRuleName  = 256
	maxAccessKey       = 256
	partitionedFactor  = 16 // a partitioned entity has this many times the requested size
)

// Tier tells which sizes entities may have.
type Tier uint8

const (
	Standard Tier = iota // the cloud's standard tier: messages of 256 KiB
	Premium              // messages up to 100 MiB, larger entities
	Unbound              // no limits but the broker's own: for the operator's entity file
)

var (
	standardSizes = []uint32{1024, 2048, 3072, 4096, 5120}
	premiumSizes  = append(slices.Clone(standardSizes), 10240, 20480, 40960, 81920)
)

// Fault describes an invalid property.
type Fault struct {
	Property string // in the spelling of the management API
	Text     string
	Code     Code // InvalidArgument or QuotaExceeded
}

// DefaultProperties returns the properties of an entity that is created with nothing but its name
// (semantics.md 1.3).
func DefaultProperties(kind event.EntityKind) event.Properties {
	p := event.Properties{
		DefaultMessageTimeToLive: event.Forever, AutoDeleteOnIdle: event.Forever, EnableBatchedOperations: true, Status: event.Active,
	}
	if kind != event.Topic {
		p.LockDuration, p.MaxDeliveryCount = usualLockDuration, 10
	}
	if kind == event.Subscription {
		p.DeadLetteringOnFilterError = true
		return p
	}
	p.MaxSizeMegabytes, p.MaxMessageSizeKilobytes = 1024, 256
	p.DuplicateDetectionWindow, p.SupportOrdering = 10*time.Minute, true
	return p
}

// CheckProperties returns everything that is wrong with the properties of an entity, in the words
// of the management API if they are known (management-api.md 2.10). It looks at each property and
// at pairs, not at other entities.
func CheckProperties(kind event.EntityKind, tier Tier, p *event.Properties) []Fault {
	c := checker{kind: kind}
	c.times(p)
	if kind != event.Subscription {
		c.sizes(tier, p)
		c.access(p)
	}
	c.texts(p)
	if p.Status > event.ReceiveDisabled {
		c.fault("Status", "The property 'Status' must be one of Active, Disabled, SendDisabled, ReceiveDisabled.")
	}
	// management-api.md 3.8
	if p.ForwardTo != "" && p.RequiresSession && !(kind == event.Queue && p.EnablePartitioning) {
		c.fault("ForwardTo", "The properties 'RequiresSession' and 'ForwardTo' can't be used together.")
	}
	if p.EnableExpress && p.RequiresDuplicateDetection {
		c.fault("EnableExpress", "Both DelayedPersistence and RequiresDuplicateDetection property can't be enabled together.")
	}
	return c.faults
}

// storable refuses properties that the log cannot store. Callers that take properties from outside
// check their ranges: see [CheckProperties].
func storable(kind event.EntityKind, p *event.Properties) *Error {
	c := checker{kind: kind}
	c.texts(p)
	c.access(p)
	if len(c.faults) > 0 {
		return &Error{Code: c.faults[0].Code, Text: c.faults[0].Text}
	}
	return nil
}

// ForwardPath returns the path of the entity that a value of ForwardTo or
// ForwardDeadLetteredMessagesTo names. The value is a bare path, or a URL of which only the path
// counts (management-api.md 3.8).
func ForwardPath(value string) string {
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
		value = u.Path
	}
	return strings.Trim(strings.ReplaceAll(value, `\`, "/"), "/")
}

// SameSettings reports whether two versions of an entity's properties have the same effect. They
// may still look different: one target of forwarding has many spellings, and access rules have
// times.
func SameSettings(a, b *event.Properties) bool {
	x, y := *a, *b
	for _, f := range [...]struct{ x, y *string }{
		{&x.ForwardTo, &y.ForwardTo}, {&x.ForwardDeadLetteredMessagesTo, &y.ForwardDeadLetteredMessagesTo},
	} {
		if strings.EqualFold(ForwardPath(*f.x), ForwardPath(*f.y)) {
			*f.y = *f.x
		}
	}
	dropTimes(&x)
	dropTimes(&y)
	return x.Equal(&y)
}

// dropTimes removes the times from the access rules: they are shown, and nothing depends on them.
func dropTimes(p *event.Properties) {
	p.AccessRules = slices.Clone(p.AccessRules)
	for i := range p.AccessRules {
		p.AccessRules[i].CreatedAt, p.AccessRules[i].ModifiedAt = 0, 0
	}
}

type checker struct {
	kind   event.EntityKind
	faults []Fault
}

func (c *checker) fault(property, format string, args ...any) {
	c.faults = append(c.faults, Fault{Property: property, Text: fmt.Sprintf(format, args...), Code: InvalidArgument})
}

func (c *checker) texts(p *event.Properties) {
	if utf8.RuneCountInString(p.UserMetadata) > maxMetadata {
		c.fault("UserMetadata", "The property 'UserMetadata' has more than %d characters.", maxMetadata)
	}
	for _, f := range [...]struct{ name, value string }{
		{"ForwardTo", p.ForwardTo}, {"ForwardDeadLetteredMessagesTo", p.ForwardDeadLetteredMessagesTo}} {
		if len(f.value) > maxForward {
			c.fault(f.name, "The property '%s' is longer than %d bytes.", f.name, maxForward)
		}
	}
}

func (c *checker) times(p *event.Properties) {
	if c.kind != event.Topic {
		switch d := p.LockDuration; {
		case d > maxLockDuration:
			c.fault("LockDuration", "The supplied lock time exceeds the allowed maximum of '5' minutes.\r\nParameter name: LockDuration\r\nActual value was %s.", timeSpan(d))
		case d < minLockDuration:
			c.fault("LockDuration", "The supplied lock time is below the allowed minimum of '5' seconds.\r\nParameter name: LockDuration\r\nActual value was %s.", timeSpan(d))
		}
		if p.MaxDeliveryCount < 1 || p.MaxDeliveryCount > maxMaxDelivery {
			c.fault("MaxDeliveryCount", "The property 'MaxDeliveryCount' must be between 1 and %d.", maxMaxDelivery)
		}
	}
	if p.DefaultMessageTimeToLive < minTimeToLive {
		c.fault("DefaultMessageTimeToLive", "The property 'DefaultMessageTimeToLive' must be at least 00:00:01. Actual value was %s.", timeSpan(p.DefaultMessageTimeToLive))
	}
	if p.AutoDeleteOnIdle < minIdle {
		c.fault("AutoDeleteOnIdle", "The property 'AutoDeleteOnIdle' must be at least 00:05:00. Actual value was %s.", timeSpan(p.AutoDeleteOnIdle))
	}
	if c.kind == event.Subscription {
		return
	}
	if w := p.DuplicateDetectionWindow; (w != 0 || p.RequiresDuplicateDetection) && (w < minDuplicateWindow || w > maxDuplicateWindow) {
		c.fault("DuplicateDetectionHistoryTimeWindow", "The value supplied must be between 00:00:20 and 7.00:00:00.\r\nParameter name: DuplicateDetectionHistoryTimeWindow\r\nActual value was %s.", timeSpan(w))
	}
}

// PartitionedSize sets the stored size of a queue or topic that is created partitioned. The cloud
// stores 16 times the requested size, and shows that from then on. Only the standard sizes are
// multiplied. Any other size is kept, such as one that a client has read and writes back.
func PartitionedSize(p *event.Properties) {
	if p.EnablePartitioning && slices.Contains(standardSizes, p.MaxSizeMegabytes) {
		p.MaxSizeMegabytes *= partitionedFactor
	}
}

func (c *checker) sizes(tier Tier, p *event.Properties) {
	allowed := standardSizes
	if tier == Premium {
		allowed = premiumSizes
	}
	size := p.MaxSizeMegabytes
	if p.EnablePartitioning && size%partitionedFactor == 0 {
		size /= partitionedFactor
	}
	switch {
	case tier == Unbound:
		if size < 1 || size > premiumSizes[len(premiumSizes)-1] || size > 1024 && size%1024 != 0 {
			c.fault("MaxSizeInMegabytes", "The specified value %d is invalid. The property 'MaxSizeInMegabytes' is at most 1024 or a multiple of it up to 81920.", p.MaxSizeMegabytes)
		}
	case !slices.Contains(allowed, size):
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(allowed), "[]"), " ", ";")
		c.fault("MaxSizeInMegabytes", "The specified value %d is invalid. The property 'MaxSizeInMegabytes', must be one of the following values: %s.", p.MaxSizeMegabytes, list)
	}
	least, most, name := uint32(256), uint32(256), "Standard"
	switch tier {
	case Premium:
		least, most, name = 1024, 102400, "Premium"
	case Unbound:
		least, most, name = 1, 102400, "Ledgerbus"
	}
	if n := p.MaxMessageSizeKilobytes; n < least || n > most {
		c.fault("MaxMessageSizeInKilobytes", "The property value for 'MaxMessageSizeInKilobytes' must be between %d and %d when the namespace is using '%s' tier.", least, most, name)
	}
}

// access checks the access rules of a queue or topic (management-api.md 3.7).
func (c *checker) access(p *event.Properties) {
	const property = "AuthorizationRules"
	if n := len(p.AccessRules); n > maxAccessRules {
		c.fault(property, "An entity can have at most %d authorization rules; %d were given.", maxAccessRules, n)
		c.faults[len(c.faults)-1].Code = QuotaExceeded
	}
	seen := map[string]bool{}
	for i := range p.AccessRules {
		r := &p.AccessRules[i]
		lower := strings.ToLower(r.Name)
		switch {
		case r.Name == "" || len(r.Name) > maxAccessRuleName || strings.ContainsFunc(r.Name, notPlain):
			c.fault(property, "The name of an authorization rule must have 1 to %d characters: letters, digits, or any of - _ . ~.", maxAccessRuleName)
		case seen[lower]:
			c.fault(property, "Two authorization rules are named '%s'.", r.Name)
		}
		seen[lower] = true
		c.rights(property, r)
		for _, key := range [...]event.Secret{r.Primary, r.Secondary} {
			if n := len(key.Reveal()); n < 1 || n > maxAccessKey {
				c.fault(property, "A key of the authorization rule '%s' has %d bytes; 1 to %d are allowed.", r.Name, n, maxAccessKey)
			}
		}
	}
}

func (c *checker) rights(property string, r *event.AccessRule) {
	var has [event.Listen + 1]bool
	for _, right := range r.Rights {
		if right < event.Manage || right > event.Listen || has[right] {
			c.fault(property, "The rights of the authorization rule '%s' must be Manage, Send or Listen, each at most once.", r.Name)
			return
		}
		has[right] = true
	}
	switch {
	case len(r.Rights) == 0:
		c.fault(property, "The authorization rule '%s' has no rights.", r.Name)
	case has[event.Manage] && !(has[event.Send] && has[event.Listen]):
		c.fault(property, "Manage permission should also include Send and Listen: '%s'.", r.Name)
	}
}

// notPlain reports whether a character would have to be encoded in a URL.
func notPlain(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.~", c))
}

// timeSpan returns a duration in the form of the management API's texts:
// days.hours:minutes:seconds.
func timeSpan(d time.Duration) string {
	s := fmt.Sprintf("%02d:%02d:%02d", d/time.Hour%24, d/time.Minute%60, d/time.Second%60)
	if days := d / (24 * time.Hour); days > 0 {
		s = fmt.Sprintf("%d.%s", days, s)
	}
	if ticks := d % time.Second / event.Tick; ticks > 0 {
		s += fmt.Sprintf(".%07d", ticks)
	}
	return s
}

// checkFixed refuses a change of a property that cannot change once an entity exists, the first one
// it finds (semantics.md 1.3, SM-312).
func checkFixed(kind event.EntityKind, old, new *event.Properties) *Error {
	for _, f := range [...]struct {
		name     string
		old, new bool
	}{
		{"RequiresSession", old.RequiresSession, new.RequiresSession},
		{"RequiresDuplicateDetection", old.RequiresDuplicateDetection, new.RequiresDuplicateDetection},
	} {
		if f.old != f.new {
			return Refuse(InvalidArgument, "The value for the %s property of an existing %s cannot be changed.", f.name, kind)
		}
	}
	if old.EnablePartitioning != new.EnablePartitioning {
		return Refuse(InvalidArgument, "Partitioning cannot be changed for %s. ", kind)
	}
	return nil
}
