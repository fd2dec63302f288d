package document

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// S28: input that is refused whatever its content, at the limit and one beyond.
func TestHostile(t *testing.T) {
	t.Parallel()
	queue := func(inside string) string {
		return entryWith(`<QueueDescription` + open + inside + `</QueueDescription>`)
	}
	deep := func(n int) string { return queue(strings.Repeat("<x>", n-3) + strings.Repeat("</x>", n-3)) }
	wide := func(n int) string { return queue(strings.Repeat("<x/>", n-3)) }
	long := func(n int) string {
		empty := queue("<UserMetadata></UserMetadata>")
		return queue("<UserMetadata>" + strings.Repeat("a", n-len(empty)) + "</UserMetadata>")
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"document type":          {`<!DOCTYPE entry>` + queue(""), ErrMalformed},
		"entity":                 {`<!DOCTYPE entry [<!ENTITY a "b">]>` + queue("<UserMetadata>&a;</UserMetadata>"), ErrMalformed},
		"undeclared entity":      {queue("<UserMetadata>&nbsp;</UserMetadata>"), ErrMalformed},
		"instruction":            {`<?php x?>` + queue(""), ErrMalformed},
		"instruction inside":     {queue("<?xml-stylesheet href='x'?>"), ErrMalformed},
		"late declaration":       {queue("") + `<?xml version="1.0"?>`, ErrMalformed},
		"UTF-16":                 {`<?xml version="1.0" encoding="utf-16"?>` + queue(""), ErrMalformed},
		"not UTF-8":              {queue("<UserMetadata>\xff</UserMetadata>"), ErrMalformed},
		"two roots":              {queue("") + queue(""), ErrMalformed},
		"text behind":            {queue("") + "x", ErrMalformed},
		"nothing":                {"", ErrMalformed},
		"white space":            {"  \n", ErrMalformed},
		"cut":                    {queue("")[:100], ErrMalformed},
		"wrong end":              {"<entry></feed>", ErrMalformed},
		"not XML":                {`{"a": 1}`, ErrMalformed},
		"depth 32":               {deep(32), nil},
		"depth 33":               {deep(33), ErrTooLarge},
		"elements 1000":          {wide(1000), nil},
		"elements 1001":          {wide(1001), ErrTooLarge},
		"64 KiB":                 {long(64 << 10), nil},
		"a byte more":            {long(64<<10 + 1), ErrTooLarge},
		"comments are no matter": {"<!-- a -->" + queue("<!-- b -->"), nil},
	} {
		doc, err := Parse([]byte(c.text), Options{Limits: RequestLimits})
		if !errors.Is(err, c.want) || err == nil && doc.Entry.Entity == nil {
			t.Errorf("%s: %v; want errors.Is(err, c.want) && (err != nil || doc.Entry.Entity != nil)", name, err)
		}
	}
}

// Well-formed documents that describe nothing valid.
func TestInvalid(t *testing.T) {
	t.Parallel()
	queue := func(inside string) string {
		return entryWith(`<QueueDescription` + open + inside + `</QueueDescription>`)
	}
	rule := func(inside string) string { return entryWith(ruleHead + inside + ruleTail) }
	for text, element := range map[string]string{
		`<other/>`:                "entry",
		`<x:entry xmlns:x="u"/>`:  "entry",
		`<entry/>`:                "content",
		entryWith(""):             "content",
		entryWith("<Something/>"): "content",
		queue("<LockDuration>1 minute</LockDuration>"):           "LockDuration",
		queue("<LockDuration/>"):                                 "LockDuration",
		queue("<MaxDeliveryCount>-1</MaxDeliveryCount>"):         "MaxDeliveryCount",
		queue("<MaxDeliveryCount>4294967296</MaxDeliveryCount>"): "MaxDeliveryCount",
		queue("<MaxSizeInMegabytes>big</MaxSizeInMegabytes>"):    "MaxSizeInMegabytes",
		queue("<RequiresSession>maybe</RequiresSession>"):        "RequiresSession",
		queue("<Status>Deleting</Status>"):                       "Status",
		queue("<Status>Unknown</Status>"):                        "Status",
		queue("<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Rule</AccessRights></Rights></AuthorizationRule></AuthorizationRules>"): "AuthorizationRules",
		// of the namespace alone
		queue("<AuthorizationRules><AuthorizationRule><Rights><AccessRights>ReadHistory</AccessRights></Rights></AuthorizationRule></AuthorizationRules>"): "AuthorizationRules",
		queue("<AuthorizationRules><AuthorizationRule><Rights><AccessRights>ReadBodies</AccessRights></Rights></AuthorizationRule></AuthorizationRules>"):  "AuthorizationRules",
		rule(`<Filter/>`):                    "Filter",
		rule(`<Filter i:type="Other"/>`):     "Filter",
		rule(`<Filter type="SqlFilter"/>`):   "Filter",
		rule(`<Filter i:type="SqlFilter"/>`): "Filter",
		rule(`<Filter i:type="SqlFilter"><SqlExpression> </SqlExpression></Filter>`): "Filter",
		rule(`<Action i:type="SqlRuleAction"/>`):                                     "Action",
		rule(`<Action i:type="X"/>`):                                                 "Action",
	} {
		_, err := Parse([]byte(text), Options{Limits: RequestLimits})
		var v *ValueError
		if !errors.As(err, &v) || v.Element != element {
			t.Errorf("%s: %v; want errors.As(err, &v) && v.Element == element", text, err)
		}
	}
	long := strings.Repeat("é", 5000)
	_, err := Parse([]byte(queue("<LockDuration>"+long+"</LockDuration>")), Options{Limits: RequestLimits})
	if err == nil || len(err.Error()) > 500 {
		t.Errorf("a text that goes back has %d bytes", len(err.Error()))
	}
}

func FuzzDescription(f *testing.F) {
	for _, text := range queueDocuments {
		f.Add([]byte(text))
	}
	f.Add([]byte(entryWith(`<SubscriptionDescription` + open + `<DefaultRuleDescription><Filter i:type="FalseFilter"/><Name>x</Name></DefaultRuleDescription><IsClientAffine>1</IsClientAffine></SubscriptionDescription>`)))
	f.Add([]byte(entryWith(`<TopicDescription` + open + `<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Send</AccessRights></Rights><KeyName>k</KeyName></AuthorizationRule></AuthorizationRules></TopicDescription>`)))
	f.Add([]byte(`<!DOCTYPE a [<!ENTITY b "c">]><entry/>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse(data, Options{Limits: RequestLimits})
		if err != nil || doc.Entry == nil || doc.Entry.Entity == nil {
			return
		}
		d := doc.Entry.Entity
		first := AppendEntry(nil, &Entry{Entity: d}, Format{Form: Request})
		again, err := Parse(first, Options{Limits: ResponseLimits})
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		e := again.Entry.Entity
		if e.Kind != d.Kind || e.Present != d.Present&^readOnly || e.ClientAffine != d.ClientAffine {
			t.Fatalf("%+v\n%+v; want e.Kind == d.Kind && e.Present == d.Present&^readOnly && e.ClientAffine == d.ClientAffine", d, e)
		}
		if second := AppendEntry(nil, &Entry{Entity: e}, Format{Form: Request}); string(second) != string(first) {
			t.Fatalf("%s\n%s; want string(second) == string(first)", first, second)
		}
		shown := AppendEntry(nil, doc.Entry, Format{Version: V2024})
		if _, err := Parse(shown, Options{Limits: ResponseLimits}); err != nil {
			t.Fatalf("%v\n%s", err, shown)
		}
	})
}

func FuzzRule(f *testing.F) {
	f.Add([]byte(entryWith(ruleHead + `<Filter i:type="SqlFilter"><SqlExpression>a=@b</SqlExpression><Parameters><KeyValueOfstringanyType><Key>@b</Key><Value i:type="d6p1:int" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">5</Value></KeyValueOfstringanyType></Parameters></Filter><Action i:type="SqlRuleAction"><SqlExpression>SET a=1</SqlExpression></Action><Name>n</Name>` + ruleTail)))
	f.Add([]byte(entryWith(ruleHead + `<Filter i:type="CorrelationFilter"><Label>x</Label><Properties><KeyValueOfstringanyType><Key>k</Key><Value i:type="dateTime">2026-01-02T03:04:05.1234567+01:00</Value></KeyValueOfstringanyType><KeyValueOfstringanyType><Key>k</Key><Value i:type="guid">00112233-4455-6677-8899-AABBCCDDEEFF</Value></KeyValueOfstringanyType><KeyValueOfstringanyType><Key>k</Key><Value i:nil="true"/></KeyValueOfstringanyType></Properties></Filter>` + ruleTail)))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse(data, Options{Limits: RequestLimits})
		if err != nil || doc.Entry == nil || doc.Entry.Rule == nil {
			return
		}
		first := AppendEntry(nil, &Entry{Rule: doc.Entry.Rule}, Format{})
		again, err := Parse(first, Options{Limits: ResponseLimits})
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		if !sameRule(again.Entry.Rule, doc.Entry.Rule) {
			t.Fatalf("%+v\n%+v; want sameRule(again.Entry.Rule, doc.Entry.Rule)", doc.Entry.Rule, again.Entry.Rule)
		}
		if second := AppendEntry(nil, &Entry{Rule: again.Entry.Rule}, Format{}); string(second) != string(first) {
			t.Fatalf("%s\n%s; want string(second) == string(first)", first, second)
		}
	})
}

func sameRule(a, b *event.Rule) bool {
	if a.Name != b.Name || a.Filter.Kind != b.Filter.Kind || a.Filter.Text != b.Filter.Text || a.Action.Text != b.Action.Text ||
		len(a.Filter.Conditions) != len(b.Filter.Conditions) || len(a.Action.Parameters) != len(b.Action.Parameters) ||
		len(a.Filter.Parameters) != len(b.Filter.Parameters) || len(a.Filter.Properties) != len(b.Filter.Properties) {
		return false
	}
	for i := range a.Filter.Properties {
		if a.Filter.Properties[i] != b.Filter.Properties[i] {
			return false
		}
	}
	return true
}
