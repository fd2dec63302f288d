package document

import (
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Element is a child of a description of an entity.
type Element uint8

// The elements, named as in the documents.
const (
	LockDuration Element = iota
	MaxSizeInMegabytes
	RequiresDuplicateDetection
	RequiresSession
	DefaultMessageTimeToLive
	DeadLetteringOnMessageExpiration
	DeadLetteringOnFilterEvaluationExceptions
	DefaultRuleDescription
	DuplicateDetectionHistoryTimeWindow
	MaxDeliveryCount
	EnableBatchedOperations
	SizeInBytes
	MessageCount
	FilteringMessagesBeforePublishing
	IsAnonymousAccessible
	AuthorizationRules
	Status
	ForwardTo
	CreatedAt
	UpdatedAt
	AccessedAt
	UserMetadata
	SupportOrdering
	CountDetails
	SubscriptionCount
	AutoDeleteOnIdle
	EnablePartitioning
	EntityAvailabilityStatus
	ForwardDeadLetteredMessagesTo
	EnableSubscriptionPartitioning
	EnableExpress
	MaxMessageSizeInKilobytes
	SQLFilterCount
	CorrelationFilterCount
	IsClientAffine
	elements
)

var elementNames = [elements]string{
	"LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession", "DefaultMessageTimeToLive",
	"DeadLetteringOnMessageExpiration", "DeadLetteringOnFilterEvaluationExceptions", "DefaultRuleDescription",
	"DuplicateDetectionHistoryTimeWindow", "MaxDeliveryCount", "EnableBatchedOperations", "SizeInBytes", "MessageCount",
	"FilteringMessagesBeforePublishing", "IsAnonymousAccessible", "AuthorizationRules", "Status", "ForwardTo", "CreatedAt",
	"UpdatedAt", "AccessedAt", "UserMetadata", "SupportOrdering", "CountDetails", "SubscriptionCount", "AutoDeleteOnIdle",
	"EnablePartitioning", "EntityAvailabilityStatus", "ForwardDeadLetteredMessagesTo", "EnableSubscriptionPartitioning",
	"EnableExpress", "MaxMessageSizeInKilobytes", "SqlFilterCount", "CorrelationFilterCount", "IsClientAffine",
}

// String returns the element's name in documents.
func (e Element) String() string {
	if e < elements {
		return elementNames[e]
	}
	return "unknown"
}

var elementsByName = func() map[string]Element {
	m := make(map[string]Element, elements)
	for i, name := range elementNames {
		m[name] = Element(i)
	}
	return m
}()

// Elements is a set of elements.
type Elements uint64

// Has reports whether e is in the set.
func (s Elements) Has(e Element) bool { return s>>e&1 == 1 }

// Add adds elements to the set.
func (s *Elements) Add(es ...Element) {
	for _, e := range es {
		*s |= 1 << e
	}
}

// of has the elements of each kind in the order in which they are written (management-api.md 3.2 to
// 3.4).
var of = map[event.EntityKind][]Element{
	event.Queue: {
		LockDuration, MaxSizeInMegabytes, RequiresDuplicateDetection, RequiresSession, DefaultMessageTimeToLive,
		DeadLetteringOnMessageExpiration, DuplicateDetectionHistoryTimeWindow, MaxDeliveryCount, EnableBatchedOperations,
		SizeInBytes, MessageCount, IsAnonymousAccessible, AuthorizationRules, Status, ForwardTo, CreatedAt, UpdatedAt,
		AccessedAt, UserMetadata, SupportOrdering, CountDetails, AutoDeleteOnIdle, EnablePartitioning, EntityAvailabilityStatus,
		ForwardDeadLetteredMessagesTo, EnableExpress, MaxMessageSizeInKilobytes,
	},
	event.Topic: {
		DefaultMessageTimeToLive, MaxSizeInMegabytes, RequiresDuplicateDetection, DuplicateDetectionHistoryTimeWindow,
		EnableBatchedOperations, SizeInBytes, FilteringMessagesBeforePublishing, IsAnonymousAccessible, AuthorizationRules,
		Status, CreatedAt, UpdatedAt, AccessedAt, UserMetadata, SupportOrdering, CountDetails, SubscriptionCount,
		AutoDeleteOnIdle, EnablePartitioning, EntityAvailabilityStatus, EnableSubscriptionPartitioning, EnableExpress,
		MaxMessageSizeInKilobytes, SQLFilterCount, CorrelationFilterCount,
	},
	event.Subscription: {
		LockDuration, RequiresSession, DefaultMessageTimeToLive, DeadLetteringOnMessageExpiration,
		DeadLetteringOnFilterEvaluationExceptions, DefaultRuleDescription, MessageCount, MaxDeliveryCount,
		EnableBatchedOperations, Status, ForwardTo, CreatedAt, UpdatedAt, AccessedAt, CountDetails, UserMetadata,
		ForwardDeadLetteredMessagesTo, AutoDeleteOnIdle, EntityAvailabilityStatus, IsClientAffine,
	},
}

// known has the elements of each kind as a set.
var known = func() map[event.EntityKind]Elements {
	m := map[event.EntityKind]Elements{}
	for kind, list := range of {
		var s Elements
		s.Add(list...)
		m[kind] = s
	}
	return m
}()

// readOnly are the elements that are written, and ignored in requests.
var readOnly = func() (s Elements) {
	s.Add(SizeInBytes, MessageCount, IsAnonymousAccessible, CreatedAt, UpdatedAt, AccessedAt, CountDetails, SubscriptionCount,
		EntityAvailabilityStatus, SQLFilterCount, CorrelationFilterCount)
	return s
}()

// shows reports whether a description has an element in a format.
func (d *Description) shows(e Element, f Format) bool {
	if f.Form == Request {
		return d.Present.Has(e) && !readOnly.Has(e)
	}
	switch e {
	case DefaultRuleDescription:
		return false
	case ForwardTo:
		return d.Properties.ForwardTo != ""
	case ForwardDeadLetteredMessagesTo:
		return d.Properties.ForwardDeadLetteredMessagesTo != ""
	case UserMetadata:
		return d.Properties.UserMetadata != ""
	case AccessedAt:
		return f.Form == Read || d.Kind == event.Subscription
	case CountDetails, SubscriptionCount:
		return f.Form == Read
	case MaxMessageSizeInKilobytes, IsClientAffine:
		return f.Version >= V2021
	case SQLFilterCount, CorrelationFilterCount:
		return f.Form == Read && f.Version >= V2024
	}
	return true
}

// property returns a pointer to the property of a simple element; nil: the element is not simple.
func property(p *event.Properties, e Element) any {
	switch e {
	case LockDuration, DefaultMessageTimeToLive, DuplicateDetectionHistoryTimeWindow, AutoDeleteOnIdle:
		return span(p, e)
	case MaxSizeInMegabytes:
		return &p.MaxSizeMegabytes
	case MaxMessageSizeInKilobytes:
		return &p.MaxMessageSizeKilobytes
	case MaxDeliveryCount:
		return &p.MaxDeliveryCount
	case ForwardTo:
		return &p.ForwardTo
	case ForwardDeadLetteredMessagesTo:
		return &p.ForwardDeadLetteredMessagesTo
	case UserMetadata:
		return &p.UserMetadata
	}
	if b := flag(p, e); b != nil {
		return b
	}
	return nil
}

func span(p *event.Properties, e Element) *time.Duration {
	switch e {
	case LockDuration:
		return &p.LockDuration
	case DefaultMessageTimeToLive:
		return &p.DefaultMessageTimeToLive
	case DuplicateDetectionHistoryTimeWindow:
		return &p.DuplicateDetectionWindow
	}
	return &p.AutoDeleteOnIdle
}

func flag(p *event.Properties, e Element) *bool {
	switch e {
	case RequiresDuplicateDetection:
		return &p.RequiresDuplicateDetection
	case RequiresSession:
		return &p.RequiresSession
	case DeadLetteringOnMessageExpiration:
		return &p.DeadLetteringOnMessageExpiration
	case DeadLetteringOnFilterEvaluationExceptions:
		return &p.DeadLetteringOnFilterError
	case EnableBatchedOperations:
		return &p.EnableBatchedOperations
	case FilteringMessagesBeforePublishing:
		return &p.FilteringBeforePublishing
	case SupportOrdering:
		return &p.SupportOrdering
	case EnablePartitioning:
		return &p.EnablePartitioning
	case EnableSubscriptionPartitioning:
		return &p.SubscriptionPartitioning
	case EnableExpress:
		return &p.EnableExpress
	}
	return nil
}
