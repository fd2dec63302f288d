package sdkgo

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// kinds are the errors of scenarios.json, by what programs branch on.
var kinds = map[string]func(error) bool{
	"lock-lost":         code(azservicebus.CodeLockLost),
	"session-lock-lost": either(code(azservicebus.CodeLockLost), condition("com.microsoft:session-cannot-be-locked")),
	"session-held":      condition("com.microsoft:session-cannot-be-locked"),
	"no-session":        either(code(azservicebus.CodeTimeout), errorIs(context.DeadlineExceeded)),
	"message-not-found": code(azservicebus.CodeNotFound),
	"entity-not-found":  code(azservicebus.CodeNotFound),
	"disabled":          condition("com.microsoft:entity-disabled"),
	"queue-full":        condition(amqp.ErrCondResourceLimitExceeded),
	"too-large":         errorIs(azservicebus.ErrMessageTooLarge),
	"not-allowed":       condition(amqp.ErrCondNotAllowed),
	"argument":          contains("com.microsoft:argument-error"),
	"unauthorized":      code(azservicebus.CodeUnauthorizedAccess),
	"no-match":          contains("com.microsoft:no-matching-subscription"),

	"admin-exists":       status(http.StatusConflict),
	"admin-missing":      status(http.StatusNotFound),
	"admin-bad-request":  status(http.StatusBadRequest),
	"admin-unauthorized": status(http.StatusUnauthorized),

	// not in the list: what the SDK says without asking the broker
	"not-settleable": contains("not settleable"),
}

func code(c azservicebus.Code) func(error) bool {
	return func(err error) bool {
		var e *azservicebus.Error
		return errors.As(err, &e) && e.Code == c
	}
}

func condition(c amqp.ErrCond) func(error) bool {
	return func(err error) bool {
		var e *amqp.Error
		return errors.As(err, &e) && e.Condition == c
	}
}

// status is the answer to a call of an administration client.
func status(s int) func(error) bool {
	return func(err error) bool {
		var e *azcore.ResponseError
		return errors.As(err, &e) && e.StatusCode == s
	}
}

// lost says that there is no connection, and not that the broker refused.
var lost = code(azservicebus.CodeConnectionLost)

func errorIs(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func contains(text string) func(error) bool {
	return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
}

func either(a, b func(error) bool) func(error) bool {
	return func(err error) bool { return a(err) || b(err) }
}

// wantError checks that a call failed with an error of a kind, whose text has these parts.
func (b *bus) wantError(kind string, err error, parts ...string) {
	b.Helper()
	if !kinds[kind](err) {
		b.Errorf("error %v, want %s", err, kind)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			b.Errorf("error %v, want text %q", err, part)
		}
	}
}

func bodies(messages []*received) []string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Body))
	}
	return all
}

func (b *bus) wantTexts(got []*received, want ...string) {
	b.Helper()
	if !slices.Equal(bodies(got), want) {
		b.Fatalf("messages %.200q, want %.200q", bodies(got), want)
	}
}

// wantEach checks that each text is there once, in any order.
func (b *bus) wantEach(got, want []string) {
	b.Helper()
	missing := map[string]int{} // less than 0: too many
	for _, body := range want {
		missing[body]++
	}
	for _, body := range got {
		missing[body]--
	}
	maps.DeleteFunc(missing, func(_ string, n int) bool { return n == 0 })
	if len(missing) > 0 {
		b.Errorf("%d texts, want %d; missing, or too often if negative: %.300v", len(got), len(want), missing)
	}
}

// count is the delivery count of the wire: how many deliveries failed before. The SDK shows one
// more, peeked or not.
func count(m *received) int { return int(m.DeliveryCount) - 1 }

func number(m *received) int64 { return deref(m.SequenceNumber) }

func (b *bus) wantCount(m *received, want int) {
	b.Helper()
	if count(m) != want {
		b.Errorf("%q: count %d, want %d", m.Body, count(m), want)
	}
}

func (b *bus) wantState(m *received, want azservicebus.MessageState) {
	b.Helper()
	if m.State != want {
		b.Errorf("%q: state %d, want %d", m.Body, m.State, want)
	}
}

func (b *bus) wantNumber(m, first *received) {
	b.Helper()
	if number(m) != number(first) {
		b.Errorf("%q: number %d, had %d at first", m.Body, number(m), number(first))
	}
}

func (b *bus) wantLocked(m *received, length, tolerance time.Duration) {
	b.Helper()
	if m.LockToken == [16]byte{} {
		b.Errorf("%q: no lock token", m.Body)
	}
	b.wantAbout("locked until", deref(m.LockedUntil), time.Now().Add(length), tolerance)
}

func (b *bus) wantAbout(what string, got, want time.Time, tolerance time.Duration) {
	b.Helper()
	if off := got.Sub(want); off.Abs() > tolerance {
		b.Errorf("%s %s, which is %s off %s; %s would be right", what, clock(got), off, clock(want), tolerance)
	}
}

func (b *bus) wantBefore(what string, got, latest time.Time) {
	b.Helper()
	if got.After(latest) {
		b.Errorf("%s at %s, %s too late", what, clock(got), got.Sub(latest))
	}
}

func (b *bus) wantAfter(what string, got, earliest time.Time) {
	b.Helper()
	if got.Before(earliest) {
		b.Errorf("%s at %s, %s too early", what, clock(got), earliest.Sub(got))
	}
}

// wantOnTime checks that something happened no earlier than it had to and promptly then.
func (b *bus) wantOnTime(what string, got, due time.Time) {
	b.Helper()
	b.wantAfter(what, got, due)
	b.wantBefore(what, got, due.Add(promptly))
}

// wantExpiry checks time to live and time of expiry.
func (b *bus) wantExpiry(m *received, life time.Duration) {
	b.Helper()
	if expires := deref(m.EnqueuedTime).Add(life); deref(m.TimeToLive) != life || !deref(m.ExpiresAt).Equal(expires) {
		b.Errorf("%q: time to live %s, expires at %s; want %s and %s", m.Body, deref(m.TimeToLive), clock(deref(m.ExpiresAt)), life, clock(expires))
	}
}

// wantLasting: messages show no time to live of their own.
func (b *bus) wantLasting(messages ...*received) {
	b.Helper()
	for _, m := range messages {
		if deref(m.TimeToLive) != 0 {
			b.Errorf("%q: time to live %s", m.Body, *m.TimeToLive)
		}
	}
}

func (b *bus) wantReason(m *received, reason string) {
	b.Helper()
	if deref(m.DeadLetterReason) != reason {
		b.Errorf("%q: reason %q, want %q", m.Body, deref(m.DeadLetterReason), reason)
	}
}

func (b *bus) wantDescription(m *received, description string) {
	b.Helper()
	if deref(m.DeadLetterErrorDescription) != description {
		b.Errorf("%q: description %q, want %q", m.Body, deref(m.DeadLetterErrorDescription), description)
	}
}

func (b *bus) wantProperties(m *received, want map[string]any) {
	b.Helper()
	for name, value := range want {
		if m.ApplicationProperties[name] != value {
			b.Errorf("%q: properties %v, want %v", m.Body, m.ApplicationProperties, want)
			return
		}
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
