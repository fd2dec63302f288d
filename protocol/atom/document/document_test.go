package document

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func parse(t *testing.T, text string) *Document {
	t.Helper()
	d, err := Parse([]byte(text), Options{Limits: RequestLimits})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// entryWith wraps a description as a request does.
func entryWith(description string) string {
	return `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">` + description + `</content></entry>`
}

const open = ` xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">`

// The same queue as each SDK writes it: MA-041 order, MA-042 prefixes.
var queueDocuments = map[string]string{
	"go": `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT10S</LockDuration><MaxDeliveryCount>3</MaxDeliveryCount><AuthorizationRules></AuthorizationRules><Status>ReceiveDisabled</Status><ForwardTo>sb://host/target</ForwardTo><UserMetadata> a &amp; b </UserMetadata></QueueDescription></content></entry>`,
	"js": "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + `<entry xmlns="http://www.w3.org/2005/Atom"><updated>2026-01-01T00:00:00.000Z</updated><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><UserMetadata> a &amp; b </UserMetadata><LockDuration>PT10S</LockDuration><MaxDeliveryCount>3</MaxDeliveryCount><Status>ReceiveDisabled</Status><ForwardTo>sb://host/target</ForwardTo><AuthorizationRules/></QueueDescription></content></entry>`,
	"py": "\ufeff<?xml version='1.0' encoding='utf-8'?>\n" + `<ns0:entry xmlns:ns0="http://www.w3.org/2005/Atom" xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><ns0:content type="application/xml"><QueueDescription><LockDuration>PT10S</LockDuration><MaxDeliveryCount> 3 </MaxDeliveryCount><SizeInBytes>17</SizeInBytes><MessageCount>1</MessageCount><AuthorizationRules/><Status>ReceiveDisabled</Status><ForwardTo>sb://host/target</ForwardTo><CreatedAt>2026-01-01T00:00:00Z</CreatedAt><UserMetadata> a &amp; b </UserMetadata><SomethingNew>5</SomethingNew></QueueDescription></ns0:content></ns0:entry>`,
	"net": `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns:i="http://www.w3.org/2001/XMLSchema-instance" xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT10S</LockDuration><ForwardDeadLetteredMessagesTo i:nil="true" /><AutoDeleteOnIdle i:nil="true" /><MaxDeliveryCount>3</MaxDeliveryCount><AuthorizationRules /><Status>receivedisabled</Status>
    <ForwardTo> sb://host/target </ForwardTo><UserMetadata> a &amp; b </UserMetadata></QueueDescription></content></entry>`,
	"prefixed":      `<a:entry xmlns:a="http://www.w3.org/2005/Atom" xmlns:s="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:x="urn:other"><a:content type="application/xml"><s:QueueDescription><x:LockDuration>nonsense</x:LockDuration><s:LockDuration>PT10S</s:LockDuration><s:LockDuration>PT11S</s:LockDuration><s:MaxDeliveryCount>3</s:MaxDeliveryCount><s:AuthorizationRules/><s:Status>ReceiveDisabled</s:Status><s:ForwardTo>sb://host/target</s:ForwardTo><s:ForwardDeadLetteredMessagesTo/><s:UserMetadata> a &amp; b </s:UserMetadata></s:QueueDescription></a:content></a:entry>`,
	"no namespaces": `<entry><content type="application/xml"><QueueDescription><LockDuration>PT10S</LockDuration><MaxDeliveryCount>3</MaxDeliveryCount><AuthorizationRules/><Status>ReceiveDisabled</Status><ForwardTo>sb://host/target</ForwardTo><UserMetadata> a &#38; b </UserMetadata></QueueDescription></content></entry>`,
}

func TestQueueOfEachSDK(t *testing.T) {
	t.Parallel()
	want := event.Properties{
		LockDuration: 10 * time.Second, MaxDeliveryCount: 3, Status: event.ReceiveDisabled, ForwardTo: "sb://host/target",
		UserMetadata: " a & b ", EnableBatchedOperations: true,
	}
	var present Elements
	present.Add(LockDuration, MaxDeliveryCount, AuthorizationRules, Status, ForwardTo, UserMetadata)
	for name, text := range queueDocuments {
		doc, err := Parse([]byte(text), Options{Limits: RequestLimits, Defaults: func(k event.EntityKind) event.Properties {
			return event.Properties{EnableBatchedOperations: k == event.Queue, MaxDeliveryCount: 10}
		}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := doc.Entry.Entity
		if d.Kind != event.Queue || !d.Properties.Equal(&want) || d.Present&^readOnly != present {
			t.Errorf("%s: %v %+v %b; want d.Kind == event.Queue && d.Properties.Equal(&want) && d.Present&^readOnly == present", name, d.Kind, d.Properties, d.Present)
		}
	}
}

const ruleHead, ruleTail = `<RuleDescription` + open, `</RuleDescription>`

// MA-042, MA-083, MA-084: filters and values as each SDK writes them.
func TestRuleOfEachSDK(t *testing.T) {
	t.Parallel()
	number := func(typ event.ValueType, n int64) event.Value { return event.Value{Type: typ, Bits: uint64(n)} }
	sql := event.Filter{Kind: event.SQLFilter, Text: "qty > @min", Parameters: []event.Property{{Name: "@min", Value: number(event.Int, 5)}}}
	for name, c := range map[string]struct {
		text string
		want event.Rule
	}{
		"go": {`<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><Filter xmlns:_XMLSchema-instance="http://www.w3.org/2001/XMLSchema-instance" _XMLSchema-instance:type="SqlFilter"><SqlExpression>qty &gt; @min</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters><KeyValueOfstringanyType><Key>@min</Key><Value xmlns:_XMLSchema-instance="http://www.w3.org/2001/XMLSchema-instance" _XMLSchema-instance:type="l28:int" xmlns:l28="http://www.w3.org/2001/XMLSchema">5</Value></KeyValueOfstringanyType></Parameters></Filter><Name>big</Name></RuleDescription>`,
			event.Rule{Name: "big", Filter: sql}},
		"js": {`<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Name>big</Name><Filter xmlns:p4="http://www.w3.org/2001/XMLSchema-instance" p4:type="SqlFilter"><SqlExpression>qty &gt; @min</SqlExpression><Parameters><KeyValueOfstringanyType><Key>@min</Key><Value xmlns:p5="http://www.w3.org/2001/XMLSchema-instance" xmlns:l28="http://www.w3.org/2001/XMLSchema" p5:type="l28:int">5</Value></KeyValueOfstringanyType></Parameters></Filter><Action xmlns:p4="http://www.w3.org/2001/XMLSchema-instance" p4:type="SqlRuleAction"><SqlExpression>SET a = 1</SqlExpression><Parameters/></Action></RuleDescription>`,
			event.Rule{Name: "big", Filter: sql, Action: event.Action{Text: "SET a = 1"}}},
		"py": {`<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:ns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><Filter xsi:type="ns:SqlFilter"><SqlExpression>qty &gt; @min</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters><KeyValueOfstringanyType><Key>@min</Key><Value xsi:type="d6p1:int" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">5</Value></KeyValueOfstringanyType><KeyValueOfstringanyType><Key>@d</Key><Value xsi:type="d6p1:duration" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">PT1H</Value></KeyValueOfstringanyType></Parameters><RequiresPreprocessing>true</RequiresPreprocessing></Filter><Action xsi:type="EmptyRuleAction"/><Name>big</Name></RuleDescription>`,
			event.Rule{Name: "big", Filter: event.Filter{Kind: event.SQLFilter, Text: "qty > @min", Parameters: []event.Property{
				{Name: "@min", Value: number(event.Int, 5)}, {Name: "@d", Value: number(event.Span, 3600*event.TicksPerSecond)}}}}},
		"net": {ruleHead + `<Filter i:type="CorrelationFilter"><CorrelationId>c</CorrelationId><Label> eu </Label><Properties><KeyValueOfstringanyType><Key>l</Key><Value p5:type="l28:long" xmlns:l28="http://www.w3.org/2001/XMLSchema" xmlns:p5="http://www.w3.org/2001/XMLSchema-instance">9007199254740993</Value></KeyValueOfstringanyType><KeyValueOfstringanyType><Key>t</Key><Value i:type="l28:dateTime" xmlns:l28="http://www.w3.org/2001/XMLSchema">2026-01-02T03:04:05.1234567Z</Value></KeyValueOfstringanyType><KeyValueOfstringanyType><Key>d</Key><Value i:type="l28:duration" xmlns:l28="http://schemas.microsoft.com/2003/10/Serialization/">-P1DT1.5S</Value></KeyValueOfstringanyType></Properties></Filter><Action i:type="EmptyRuleAction" /><Name>c</Name>` + ruleTail,
			event.Rule{Name: "c", Filter: event.Filter{Kind: event.CorrelationFilter,
				Conditions: []event.Condition{{Field: event.FieldCorrelationID, Text: "c"}, {Field: event.FieldLabel, Text: " eu "}},
				Properties: []event.Property{
					{Name: "l", Value: number(event.Long, 9007199254740993)},
					{Name: "t", Value: number(event.Instant, 639029198451234567)},
					{Name: "d", Value: number(event.Span, -864015000000)},
				}}}},
		"no filter": {ruleHead + `<Name>all</Name>` + ruleTail, event.Rule{Name: "all", Filter: event.Filter{Kind: event.TrueFilter}}},
		"false":     {ruleHead + `<Filter i:type="FalseFilter"/><Name>none</Name>` + ruleTail, event.Rule{Name: "none", Filter: event.Filter{Kind: event.FalseFilter}}},
		"wide int": {ruleHead + `<Filter i:type="SqlFilter"><SqlExpression>a=@a</SqlExpression><Parameters><KeyValueOfstringanyType><Key>@a</Key><Value i:type="int">4294967296</Value></KeyValueOfstringanyType></Parameters></Filter>` + ruleTail,
			event.Rule{Filter: event.Filter{Kind: event.SQLFilter, Text: "a=@a", Parameters: []event.Property{{Name: "@a", Value: number(event.Int, 4294967296)}}}}},
	} {
		got := parse(t, entryWith(c.text)).Entry.Rule
		if !cmp.Equal(*got, c.want) {
			t.Errorf("%s: %+v (-want +got):\n%s", name, *got, cmp.Diff(c.want, *got))
		}
		again := parse(t, string(AppendEntry(nil, &Entry{Rule: got}, Format{}))).Entry.Rule
		if !cmp.Equal(again, got) {
			t.Errorf("%s: written and read %+v (-want +got):\n%s", name, again, cmp.Diff(got, again))
		}
	}
}

// value reads a value of a type and writes it again.
func value(t *testing.T, typ, text string) (string, error) {
	t.Helper()
	doc, err := Parse([]byte(entryWith(ruleHead+`<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>k</Key><Value xmlns:l28="http://www.w3.org/2001/XMLSchema" i:type="`+typ+`">`+text+`</Value></KeyValueOfstringanyType></Properties></Filter>`+ruleTail)), Options{Limits: RequestLimits})
	if err != nil {
		return "", err
	}
	out := string(AppendEntry(nil, &Entry{Rule: doc.Entry.Rule}, Format{}))
	_, out, _ = strings.Cut(out, "<Key>k</Key><Value ")
	out, _, _ = strings.Cut(out, "</Value>")
	return out, nil
}

// MA-084: the type of a value is kept, and a time keeps its zone and seven digits.
func TestValues(t *testing.T) {
	t.Parallel()
	const schema = `" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">`
	for _, c := range []struct{ typ, text, want string }{
		{"l28:string", " a&lt;b ", `i:type="d6p1:string` + schema + ` a&lt;b `},
		{"l28:string", "a&#xD;b\n", `i:type="d6p1:string` + schema + "a&#xD;b\n"},
		{"l28:int", " -5 ", `i:type="d6p1:int` + schema + `-5`},
		{"l28:long", "-9223372036854775808", `i:type="d6p1:long` + schema + `-9223372036854775808`},
		{"l28:boolean", "True", `i:type="d6p1:boolean` + schema + `true`},
		{"l28:boolean", "0", `i:type="d6p1:boolean` + schema + `false`},
		{"l28:double", "1.5", `i:type="d6p1:double` + schema + `1.5`},
		{"l28:double", "INF", `i:type="d6p1:double` + schema + `INF`},
		{"l28:double", "-1e999", `i:type="d6p1:double` + schema + `-INF`},
		{"l28:double", "NaN", `i:type="d6p1:double` + schema + `NaN`},
		{"l28:dateTime", "2026-01-02T03:04:05.1234567Z", `i:type="d6p1:dateTime` + schema + `2026-01-02T03:04:05.1234567Z`},
		{"l28:dateTime", " 2026-01-02T03:04:05.1000000 ", `i:type="d6p1:dateTime` + schema + `2026-01-02T03:04:05.1`},
		{"l28:dateTime", "2026-01-02T03:04:05+02:00", `i:type="d6p1:dateTime` + schema + `2026-01-02T03:04:05+02:00`},
		{"l28:duration", "PT90S", `i:type="d6p1:duration" xmlns:d6p1="http://schemas.microsoft.com/2003/10/Serialization/">PT1M30S`},
		{"l28:decimal", "12.50", `i:type="d6p1:decimal` + schema + `12.50`},
		{"guid", "00112233-4455-6677-8899-AABBCCDDEEFF", `i:type="d6p1:guid" xmlns:d6p1="http://schemas.microsoft.com/2003/10/Serialization/">00112233-4455-6677-8899-aabbccddeeff`},
	} {
		if got, err := value(t, c.typ, c.text); err != nil || got != c.want {
			t.Errorf("%s %q: %q %v; want got == c.want", c.typ, c.text, got, err)
		}
	}
	for _, c := range [][2]string{
		{"l28:int", "x"}, {"l28:int", ""}, {"l28:int", "1.5"}, {"l28:long", "9223372036854775808"}, {"l28:boolean", "yes"}, {"l28:double", "0x1p4"},
		{"l28:double", "Infinity5"}, {"l28:dateTime", "today"}, {"l28:duration", "P1Y"}, {"l28:decimal", "1e5"}, {"guid", "0011"},
		{"l28:byte", "1"}, {"", "1"}, {"nowhere:int", "1"}, {"i:int", "1"},
	} {
		var v *ValueError
		if got, err := value(t, c[0], c[1]); !errors.As(err, &v) {
			t.Errorf("%s %q: %q %v; want errors.As(err, &v)", c[0], c[1], got, err)
		}
	}
}

// MA-030, MA-031: canonical order, and the elements that an answer to a PUT leaves out.
func TestWriteQueue(t *testing.T) {
	t.Parallel()
	d := &Description{Kind: event.Queue, CreatedAt: 1767225600000, UpdatedAt: 1767225600120}
	d.Properties = event.Properties{
		LockDuration: time.Minute, MaxSizeMegabytes: 1024, MaxMessageSizeKilobytes: 256, DuplicateDetectionWindow: 10 * time.Minute,
		DefaultMessageTimeToLive: event.Forever, MaxDeliveryCount: 10, EnableBatchedOperations: true, AutoDeleteOnIdle: event.Forever, SupportOrdering: true,
	}
	d.Runtime = Runtime{Active: 1, DeadLetter: 2, Scheduled: math.MaxInt32 + 1, SizeBytes: 9}
	head := `<entry xmlns="http://www.w3.org/2005/Atom"><id>https://h/q?a=1&amp;b=2</id><title type="text">q</title><published>2026-01-01T00:00:00Z</published><updated>2026-01-01T00:00:00Z</updated><author><name>ns</name></author><link rel="self" href="https://h/q?a=1&amp;b=2"/><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">` +
		`<LockDuration>PT1M</LockDuration><MaxSizeInMegabytes>1024</MaxSizeInMegabytes><RequiresDuplicateDetection>false</RequiresDuplicateDetection><RequiresSession>false</RequiresSession><DefaultMessageTimeToLive>P10675199DT2H48M5.4775807S</DefaultMessageTimeToLive><DeadLetteringOnMessageExpiration>false</DeadLetteringOnMessageExpiration><DuplicateDetectionHistoryTimeWindow>PT10M</DuplicateDetectionHistoryTimeWindow><MaxDeliveryCount>10</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations><SizeInBytes>9</SizeInBytes><MessageCount>2147483651</MessageCount><IsAnonymousAccessible>false</IsAnonymousAccessible><AuthorizationRules/><Status>Active</Status><CreatedAt>2026-01-01T00:00:00Z</CreatedAt><UpdatedAt>2026-01-01T00:00:00.12Z</UpdatedAt>`
	tail := `<AutoDeleteOnIdle>P10675199DT2H48M5.4775807S</AutoDeleteOnIdle><EnablePartitioning>false</EnablePartitioning><EntityAvailabilityStatus>Available</EntityAvailabilityStatus><EnableExpress>false</EnableExpress>`
	const size, end = `<MaxMessageSizeInKilobytes>256</MaxMessageSizeInKilobytes>`, `</QueueDescription></content></entry>`
	counts := `<CountDetails xmlns:d2p1="http://schemas.microsoft.com/netservices/2011/06/servicebus"><d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount><d2p1:DeadLetterMessageCount>2</d2p1:DeadLetterMessageCount><d2p1:ScheduledMessageCount>2147483647</d2p1:ScheduledMessageCount><d2p1:TransferMessageCount>0</d2p1:TransferMessageCount><d2p1:TransferDeadLetterMessageCount>0</d2p1:TransferDeadLetterMessageCount></CountDetails>`
	entry := &Entry{ID: "https://h/q?a=1&b=2", Self: "https://h/q?a=1&b=2", Title: "q", Published: d.CreatedAt, Updated: d.UpdatedAt, Author: "ns", Entity: d}
	for name, c := range map[string]struct {
		format Format
		want   string
	}{
		"2021-05":         {Format{Version: V2021, Form: Written}, head + `<SupportOrdering>true</SupportOrdering>` + tail + size + end},
		"2017-04":         {Format{Version: V2017, Form: Written}, head + `<SupportOrdering>true</SupportOrdering>` + tail + end},
		"2024-05 and GET": {Format{Version: V2024, Form: Read}, head + `<AccessedAt>0001-01-01T00:00:00Z</AccessedAt><SupportOrdering>true</SupportOrdering>` + counts + tail + size + end},
	} {
		if got := string(AppendEntry(nil, entry, c.format)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// order is the names of the children of the description.
func order(text string) string {
	_, text, _ = strings.Cut(text, `Description xmlns`)
	var names []string
	depth := 0
	for part := range strings.SplitSeq(text, "<") {
		name, _, _ := strings.Cut(part, ">")
		name, _, _ = strings.Cut(name, " ")
		switch {
		case strings.HasPrefix(part, "/"):
			if depth--; depth < 0 {
				return strings.Join(names, " ")
			}
		case strings.HasPrefix(part, " ") || strings.Contains(part, `instance">`):
		default:
			if depth == 0 {
				names = append(names, strings.TrimSuffix(name, "/"))
			}
			if !strings.Contains(part, "/>") {
				depth++
			}
		}
	}
	return strings.Join(names, " ")
}

// The order for topics and subscriptions, and the elements that depend on the version
// (management-api.md 1.3, 3.3, 3.4).
func TestOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   event.EntityKind
		format Format
		want   string
	}{
		"topic":                      {event.Topic, Format{V2024, Read}, "DefaultMessageTimeToLive MaxSizeInMegabytes RequiresDuplicateDetection DuplicateDetectionHistoryTimeWindow EnableBatchedOperations SizeInBytes FilteringMessagesBeforePublishing IsAnonymousAccessible AuthorizationRules Status CreatedAt UpdatedAt AccessedAt UserMetadata SupportOrdering CountDetails SubscriptionCount AutoDeleteOnIdle EnablePartitioning EntityAvailabilityStatus EnableSubscriptionPartitioning EnableExpress MaxMessageSizeInKilobytes SqlFilterCount CorrelationFilterCount"},
		"topic, PUT":                 {event.Topic, Format{V2024, Written}, "DefaultMessageTimeToLive MaxSizeInMegabytes RequiresDuplicateDetection DuplicateDetectionHistoryTimeWindow EnableBatchedOperations SizeInBytes FilteringMessagesBeforePublishing IsAnonymousAccessible AuthorizationRules Status CreatedAt UpdatedAt UserMetadata SupportOrdering AutoDeleteOnIdle EnablePartitioning EntityAvailabilityStatus EnableSubscriptionPartitioning EnableExpress MaxMessageSizeInKilobytes"},
		"subscription":               {event.Subscription, Format{V2021, Read}, "LockDuration RequiresSession DefaultMessageTimeToLive DeadLetteringOnMessageExpiration DeadLetteringOnFilterEvaluationExceptions MessageCount MaxDeliveryCount EnableBatchedOperations Status ForwardTo CreatedAt UpdatedAt AccessedAt CountDetails UserMetadata ForwardDeadLetteredMessagesTo AutoDeleteOnIdle EntityAvailabilityStatus IsClientAffine"},
		"subscription, 2017-04, PUT": {event.Subscription, Format{V2017, Written}, "LockDuration RequiresSession DefaultMessageTimeToLive DeadLetteringOnMessageExpiration DeadLetteringOnFilterEvaluationExceptions MessageCount MaxDeliveryCount EnableBatchedOperations Status ForwardTo CreatedAt UpdatedAt AccessedAt UserMetadata ForwardDeadLetteredMessagesTo AutoDeleteOnIdle EntityAvailabilityStatus"},
	} {
		d := &Description{Kind: c.kind, DefaultRule: &event.Rule{}, Properties: event.Properties{ForwardTo: "x", ForwardDeadLetteredMessagesTo: "y", UserMetadata: "z"}}
		text := string(AppendEntry(nil, &Entry{Entity: d}, c.format))
		if got := order(text); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if c.kind == event.Subscription {
			zero := `<AccessedAt>0001-01-01T00:00:00Z</AccessedAt>`
			if c.format.Form == Written {
				zero = `<AccessedAt>0001-01-01T00:00:00</AccessedAt>`
			}
			if !strings.Contains(text, zero) {
				t.Errorf("%s: %s; want strings.Contains(text, zero)", name, text)
			}
		}
	}
}

// MA-085: a rule without an action has an empty one, and empty lists have no attributes.
func TestWriteRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule event.Rule
		want string
	}{
		{event.Rule{Name: "$Default", CreatedAt: 1767225600000, Filter: event.Filter{Kind: event.TrueFilter}},
			`<Filter i:type="TrueFilter"><SqlExpression>1=1</SqlExpression><CompatibilityLevel>20</CompatibilityLevel></Filter><Action i:type="EmptyRuleAction"/><CreatedAt>2026-01-01T00:00:00Z</CreatedAt><Name>$Default</Name>`},
		{event.Rule{Name: "n", CreatedAt: 1767225600000, Filter: event.Filter{Kind: event.FalseFilter}, Action: event.Action{Text: "SET a='\"'"}},
			`<Filter i:type="FalseFilter"><SqlExpression>1=0</SqlExpression><CompatibilityLevel>20</CompatibilityLevel></Filter><Action i:type="SqlRuleAction"><SqlExpression>SET a='&quot;'</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters/><RequiresPreprocessing>false</RequiresPreprocessing></Action><CreatedAt>2026-01-01T00:00:00Z</CreatedAt><Name>n</Name>`},
		{event.Rule{Name: "s", CreatedAt: 1767225600000, Filter: event.Filter{Kind: event.SQLFilter, Text: "a<b"}},
			`<Filter i:type="SqlFilter"><SqlExpression>a&lt;b</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters/></Filter><Action i:type="EmptyRuleAction"/><CreatedAt>2026-01-01T00:00:00Z</CreatedAt><Name>s</Name>`},
		{event.Rule{Name: "c", CreatedAt: 1767225600000, Filter: event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: event.FieldContentType, Text: ""}, {Field: event.FieldTo, Text: "x"}}}},
			`<Filter i:type="CorrelationFilter"><To>x</To><ContentType></ContentType><Properties/></Filter><Action i:type="EmptyRuleAction"/><CreatedAt>2026-01-01T00:00:00Z</CreatedAt><Name>c</Name>`},
	} {
		want := ruleHead + c.want + ruleTail
		if got := string(AppendEntry(nil, &Entry{Rule: &c.rule}, Format{})); !strings.Contains(got, want) {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// MA-061: rules and rights keep their order, and have the times that were set.
func TestAccessRules(t *testing.T) {
	t.Parallel()
	const text = `<QueueDescription` + open + `<AuthorizationRules><AuthorizationRule i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights><AccessRights>Send</AccessRights><AccessRights>Manage</AccessRights><AccessRights>Listen</AccessRights></Rights><CreatedTime>2026-01-01T00:00:00Z</CreatedTime><ModifiedTime>2026-01-01T00:00:01Z</ModifiedTime><KeyName>z</KeyName><PrimaryKey>p</PrimaryKey><SecondaryKey>s</SecondaryKey></AuthorizationRule><AuthorizationRule i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights><AccessRights>Listen</AccessRights></Rights><KeyName>a</KeyName><PrimaryKey></PrimaryKey><SecondaryKey></SecondaryKey></AuthorizationRule></AuthorizationRules>`
	want := []event.AccessRule{
		{Name: "z", Rights: event.Rights{event.Send, event.Manage, event.Listen}, Primary: "p", Secondary: "s", CreatedAt: 1767225600000, ModifiedAt: 1767225601000},
		{Name: "a", Rights: event.Rights{event.Listen}},
	}
	d := parse(t, entryWith(text+`</QueueDescription>`)).Entry.Entity
	if !cmp.Equal(d.Properties.AccessRules, want) {
		t.Errorf("%+v (-want +got):\n%s", d.Properties.AccessRules, cmp.Diff(want, d.Properties.AccessRules))
	}
	_, rules, _ := strings.Cut(text, open)
	if got := string(AppendEntry(nil, &Entry{Entity: d}, Format{})); !strings.Contains(got, rules) {
		t.Errorf("%+v; want strings.Contains(got, rules)", got)
	}
	if got := string(AppendEntry(nil, &Entry{Entity: d}, Format{Form: Request})); strings.Count(got, "CreatedTime>") != 2 || strings.Contains(got, "<PrimaryKey></PrimaryKey>") {
		t.Errorf(`%+v; want strings.Count(got, "CreatedTime>") == 2 && !strings.Contains(got, "<PrimaryKey></PrimaryKey>")`, got)
	}
}

func TestRequestForm(t *testing.T) {
	t.Parallel()
	d := &Description{Kind: event.Subscription, DefaultRule: &event.Rule{Name: "r", Filter: event.Filter{Kind: event.FalseFilter}}}
	d.Properties.RequiresSession = true
	d.Present.Add(RequiresSession, DefaultRuleDescription, MessageCount)
	want := entryWith(`<SubscriptionDescription` + open + `<RequiresSession>true</RequiresSession><DefaultRuleDescription><Filter i:type="FalseFilter"><SqlExpression>1=0</SqlExpression><CompatibilityLevel>20</CompatibilityLevel></Filter><Action i:type="EmptyRuleAction"/><Name>r</Name></DefaultRuleDescription></SubscriptionDescription>`)
	if got := string(AppendEntry(nil, &Entry{Entity: d}, Format{Form: Request})); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// MA-072: links, self first; the parts of a feed that clients read.
func TestFeed(t *testing.T) {
	t.Parallel()
	feed := &Feed{Title: "Queues", ID: "https://h/$Resources/queues?a=b&c", Updated: 1767225600999, Self: "https://h/$Resources/queues?a=b&c", Next: "https://h/next?%24skip=1&%24top=1"}
	for i := range 2 {
		d := &Description{Kind: event.Queue, Runtime: Runtime{Active: i, SizeBytes: 7}, AccessedAt: 1767225600001}
		feed.Entries = append(feed.Entries, Entry{Base: feed.ID, ID: fmt.Sprintf("https://h/q%d", i), Title: fmt.Sprintf("q%d", i), Self: "../q", Entity: d})
	}
	text := string(AppendFeed(nil, feed, Format{Version: V2021}))
	const want = `<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">Queues</title><id>https://h/$Resources/queues?a=b&amp;c</id><updated>2026-01-01T00:00:00Z</updated><link rel="self" href="https://h/$Resources/queues?a=b&amp;c"/><link rel="next" href="https://h/next?%24skip=1&amp;%24top=1"/><entry xml:base="https://h/$Resources/queues?a=b&amp;c"><id>https://h/q0</id><title type="text">q0</title>`
	if !strings.HasPrefix(text, want) {
		t.Errorf("%+v; want strings.HasPrefix(text, want)", text)
	}
	got := parse(t, text).Feed
	if got.NotFound() || got.Title != "Queues" || got.Next != feed.Next || got.Self != feed.Self || got.ID != feed.ID || len(got.Entries) != 2 {
		t.Errorf(`%+v; want !got.NotFound() && got.Title == "Queues" && got.Next == feed.Next && got.Self == feed.Self && got.ID == feed.ID && len(got.Entries) == 2`, got)
	}
	e := got.Entries[1].Entity
	if got.Entries[1].Title != "q1" || e.Runtime != feed.Entries[1].Entity.Runtime || e.AccessedAt != 1767225600001 {
		t.Errorf(`%+v; want got.Entries[1].Title == "q1" && e.Runtime == feed.Entries[1].Entity.Runtime && e.AccessedAt == 1767225600001`, got.Entries[1])
	}
	feed.Next, feed.Entries = "", nil
	if text := string(AppendFeed(nil, feed, Format{})); strings.Count(text, "<link") != 1 || !strings.HasSuffix(text, "/></feed>") || parse(t, text).Feed.NotFound() {
		t.Errorf(`%+v; want strings.Count(text, "<link") == 1 && strings.HasSuffix(text, "/></feed>") && !parse(t, text).Feed.NotFound()`, text)
	}
}

// MA-043: the feed for a path that does not exist.
func TestNotFound(t *testing.T) {
	t.Parallel()
	text := string(AppendNotFound(nil, "uuid:x;id=1", 1767225600000))
	const want = `<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">Publicly Listed Services</title><subtitle type="text">This is the list of publicly-listed services currently available.</subtitle><id>uuid:x;id=1</id><updated>2026-01-01T00:00:00Z</updated><generator>Service Bus 1.1</generator></feed>`
	if text != want || !parse(t, text).Feed.NotFound() {
		t.Errorf("%+v; want text == want && parse(t, text).Feed.NotFound()", text)
	}
}

func TestErrorAndNamespace(t *testing.T) {
	t.Parallel()
	text := string(AppendError(nil, &Error{Code: 409, Detail: "SubCode=40900. <x>"}))
	if text != `<Error><Code>409</Code><Detail>SubCode=40900. &lt;x&gt;</Detail></Error>` {
		t.Errorf("%+v, want `<Error><Code>409</Code><Detail>SubCode=40900. &lt;x&gt;</Detail></Error>`", text)
	}
	if e := parse(t, text).Error; e.Code != 409 || e.Detail != "SubCode=40900. <x>" {
		t.Errorf(`%+v; want e.Code == 409 && e.Detail == "SubCode=40900. <x>"`, e)
	}
	n := &Namespace{Name: "ns", Tier: "Standard", CreatedAt: 1767225600000, ModifiedAt: 1767225601000}
	text = string(AppendEntry(nil, &Entry{Title: "ns", Namespace: n}, Format{}))
	const want = `<NamespaceInfo` + open + `<CreatedTime>2026-01-01T00:00:00Z</CreatedTime><MessagingSKU>Standard</MessagingSKU><ModifiedTime>2026-01-01T00:00:01Z</ModifiedTime><Name>ns</Name><NamespaceType>Messaging</NamespaceType></NamespaceInfo>`
	if !strings.Contains(text, want) {
		t.Errorf("%+v; want strings.Contains(text, want)", text)
	}
	if got := parse(t, text).Entry.Namespace; *got != *n {
		t.Errorf("%+v; want *got == *n", got)
	}
	n.Tier = "Premium"
	text = string(AppendEntry(nil, &Entry{Namespace: n}, Format{}))
	if !strings.Contains(text, "<MessagingUnits>1</MessagingUnits>") {
		t.Errorf(`%+v; want strings.Contains(text, "<MessagingUnits>1</MessagingUnits>")`, text)
	}
}
