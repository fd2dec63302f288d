package admin_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

func connect(t *testing.T) *admin.Client {
	t.Helper()
	c, err := admin.New(harness.Start(t).ConnectionString(), admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Lists of more than a page are complete and in order.
func TestPagesOfTheBroker(t *testing.T) {
	t.Parallel()
	c := connect(t)
	var want []string
	for i := range 205 {
		name := fmt.Sprintf("events-%03d", i)
		if _, err := c.Create(t.Context(), admin.NewEntity(event.Topic, name)); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	found, err := c.List(t.Context(), event.Topic, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range found {
		got = append(got, e.Path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// MA-083, MA-084: rules are read back unchanged.
func TestRulesOfTheBroker(t *testing.T) {
	t.Parallel()
	c := connect(t)
	if _, err := c.Create(t.Context(), admin.NewEntity(event.Topic, "a/events")); err != nil {
		t.Fatal(err)
	}
	subscription := admin.SubscriptionPath("a/events", "Audit")
	s := admin.NewEntity(event.Subscription, subscription)
	values := []event.Property{
		{Name: "@s", Value: event.Value{Type: event.String, Text: " <a & b> "}}, {Name: "@i", Value: event.Value{Type: event.Int, Bits: 1 << 31}},
		{Name: "@l", Value: event.Value{Type: event.Long, Bits: math.MaxUint64}}, {Name: "@b", Value: event.Value{Type: event.Bool, Bits: 1}},
		{Name: "@d", Value: event.Value{Type: event.Double, Bits: math.Float64bits(-0.1)}}, {Name: "@t", Value: event.Value{Type: event.Instant, Bits: 639054432001234567}},
		{Name: "@p", Value: event.Value{Type: event.Span, Bits: 36_000_000_001}},
	}
	rules := []event.Rule{
		{Name: "a", Filter: event.Filter{Kind: event.SQLFilter, Text: "x < @i", Parameters: values}, Action: event.Action{Text: "SET y = @s", Parameters: values[:1]}},
		{Name: "B", Filter: event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: event.FieldLabel, Text: "l"}, {Field: event.FieldContentType, Text: ""}}, Properties: values[:2]}},
		{Name: "c", Filter: event.Filter{Kind: event.TrueFilter}}, {Name: "d", Filter: event.Filter{Kind: event.FalseFilter}},
	}
	s.SetDefaultRule(rules[0])
	if _, err := c.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules[1:] {
		if _, err := c.CreateRule(t.Context(), subscription, r); err != nil {
			t.Fatal(err)
		}
	}
	same := cmpopts.IgnoreFields(event.Rule{}, "CreatedAt")
	found, err := c.Rules(t.Context(), subscription)
	if diff := cmp.Diff(rules, found, same); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	rules[2].Filter = event.Filter{Kind: event.SQLFilter, Text: "z = 1"}
	if _, err := c.UpdateRule(t.Context(), subscription, rules[2]); err != nil {
		t.Error(err)
	}
	one, err := c.Rule(t.Context(), subscription, "C")
	if err != nil || !cmp.Equal(*one, rules[2], same) {
		t.Errorf("%+v, %v; want cmp.Equal(*one, rules[2], same)", one, err)
	}
	if err := c.DeleteRule(t.Context(), subscription, "b"); err != nil {
		t.Error(err)
	}
	for _, err := range []error{c.DeleteRule(t.Context(), subscription, "b"), second(c.Rule(t.Context(), subscription, "b")), second(c.UpdateRule(t.Context(), subscription, rules[1]))} {
		if !admin.IsNotFound(err) {
			t.Errorf("a rule that is gone: %v", err)
		}
	}
	if _, err := c.CreateRule(t.Context(), subscription, rules[2]); !admin.IsConflict(err) {
		t.Errorf("a rule that exists: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// Omitted values have the broker's defaults, for a creation and an update (2.4).
func TestEntitiesOfTheBroker(t *testing.T) {
	t.Parallel()
	c := connect(t)
	q := admin.NewEntity(event.Queue, "Invoices")
	q.Properties.LockDuration, q.Properties.ForwardDeadLetteredMessagesTo = 30*time.Second, "orders"
	q.Properties.UserMetadata = "a <b> & c"
	q.Present.Add(document.LockDuration, document.ForwardDeadLetteredMessagesTo, document.UserMetadata)
	made, err := c.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(t.Context(), event.Queue, "invoices")
	if err != nil {
		t.Fatal(err)
	}
	if got.Path != "invoices" || made.Path != "invoices" || got.Properties.LockDuration != 30*time.Second || got.Properties.ForwardDeadLetteredMessagesTo != "orders" ||
		got.Properties.UserMetadata != q.Properties.UserMetadata || got.Properties.MaxDeliveryCount != 10 || !cmp.Equal(got.Properties, made.Properties) {
		t.Errorf("%+v\n%+v", got, made)
	}
	// values from the broker can be sent back
	got.Properties.MaxDeliveryCount, got.Properties.ForwardDeadLetteredMessagesTo = 3, ""
	want := got.Properties
	if got, err = c.Update(t.Context(), got); err != nil || !cmp.Equal(got.Properties, want) {
		t.Errorf("%+v, %v; want cmp.Equal(got.Properties, want)", got, err)
	}
	plain, err := c.Update(t.Context(), admin.NewEntity(event.Queue, "invoices"))
	if err != nil || plain.Properties.LockDuration != time.Minute || plain.Properties.UserMetadata != "" {
		t.Errorf(`%+v, %v; want plain.Properties.LockDuration == time.Minute && plain.Properties.UserMetadata == ""`, plain, err)
	}
	if ns, err := c.Namespace(t.Context()); err != nil || ns.Tier != "Standard" {
		t.Errorf(`%+v, %v; want ns.Tier == "Standard"`, ns, err)
	}
	if err := c.Delete(t.Context(), event.Queue, "invoices"); err != nil {
		t.Error(err)
	}
	for _, err := range []error{c.Delete(t.Context(), event.Queue, "invoices"), second(c.Get(t.Context(), event.Queue, "invoices")), second(c.Update(t.Context(), q))} {
		if !admin.IsNotFound(err) {
			t.Errorf("a queue that is gone: %v", err)
		}
	}
}
