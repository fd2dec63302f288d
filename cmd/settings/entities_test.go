package settings

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// golden compares text with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// parsed returns the entities of a file's content.
func parsed(file string, src []byte) ([]engine.PutEntity, error) {
	f, err := parseEntities(file, src, readMode{}, nil)
	if err != nil {
		return nil, err
	}
	return f.put, nil
}

// revealed makes keys comparable, which print as ***.
var revealed = cmp.Comparer(func(a, b event.Secret) bool { return a == b })

// put returns an entity with the emulator's properties and some others.
func put(kind event.EntityKind, path string, changes ...func(*event.Properties)) engine.PutEntity {
	e := engine.PutEntity{Kind: kind, Path: path, Properties: emulatorDefaults(kind)}
	for _, change := range changes {
		change(&e.Properties)
	}
	return e
}

// sampleRules are the rules of topic.1/Subscriptions/picky in sample.json.
func sampleRules() []event.Rule {
	text := func(s string) event.Value { return event.Value{Type: event.String, Text: s} }
	return []event.Rule{
		{Name: "by-fields", Filter: event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{
			{Field: event.FieldCorrelationID, Text: "c"}, {Field: event.FieldMessageID, Text: "m"}, {Field: event.FieldTo}, {Field: event.FieldReplyTo, Text: "r"},
			{Field: event.FieldLabel, Text: "l"}, {Field: event.FieldSessionID, Text: "s"}, {Field: event.FieldReplyToSessionID, Text: "t"},
			{Field: event.FieldContentType, Text: "text/plain"},
		}, Properties: []event.Property{
			{Name: "text", Value: text("x")}, {Name: "yes", Value: event.Value{Type: event.Bool, Bits: 1}}, {Name: "small", Value: event.Value{Type: event.Int, Bits: 7}},
			{Name: "large", Value: event.Value{Type: event.Long, Bits: 5000000000}}, {Name: "real", Value: event.Value{Type: event.Double, Bits: math.Float64bits(1.5)}},
			{Name: "tiny", Value: event.Value{Type: event.Double, Bits: math.Float64bits(1e-3)}},
			{Name: "at", Value: event.Value{Type: event.Instant, Bits: 639054432001234567}}, {Name: "for", Value: event.Value{Type: event.Span, Bits: 1<<64 - 15000000}},
		}}},
		{Name: "$sql", Filter: event.Filter{Kind: event.SQLFilter, Text: "quantity > @least",
			Parameters: []event.Property{{Name: "@least", Value: event.Value{Type: event.Long, Bits: 5}}, {Name: "@nothing"}}}, Action: event.Action{Text: "SET many = TRUE"}},
		{Name: "everything", Filter: event.Filter{Kind: event.TrueFilter}},
		{Name: "nothing", Filter: event.Filter{Kind: event.FalseFilter}},
	}
}

// MA-120, MA-122, MA-124 (management-api.md 4.2): the emulator's file with all its keys, and with
// ours.
func TestFileOfTheEmulator(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/sample.json")
	if err != nil {
		t.Fatal(err)
	}
	picky := put(event.Subscription, "topic.1/Subscriptions/picky", func(p *event.Properties) { p.MaxDeliveryCount, p.RequiresSession = 5, true })
	picky.Rules, picky.OnlyRules = sampleRules(), true
	deaf := put(event.Subscription, "topic.1/Subscriptions/deaf")
	deaf.Rules, deaf.OnlyRules = sampleRules()[3:], true
	want := []engine.PutEntity{
		put(event.Queue, "queue.1"), put(event.Queue, "orders/eu"),
		put(event.Queue, "states", func(p *event.Properties) {
			p.RequiresSession, p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, true, 7*24*time.Hour
			p.Status, p.DeadLetteringOnMessageExpiration = event.SendDisabled, true
		}),
		put(event.Queue, "big", func(p *event.Properties) {
			p.MaxSizeMegabytes, p.MaxDeliveryCount, p.LockDuration = 81920, 2147483647, 5*time.Minute
			p.DefaultMessageTimeToLive, p.UserMetadata = event.Forever, "x"
		}),
		put(event.Topic, "topic.1", func(p *event.Properties) { p.DefaultMessageTimeToLive = 30 * time.Minute }), put(event.Topic, "Team/Events~1"),
		put(event.Subscription, "topic.1/Subscriptions/plain"), picky, put(event.Subscription, "topic.1/Subscriptions/unruled"), deaf, put(event.Subscription, "Team/Events~1/Subscriptions/plain"),
	}
	for name, src := range map[string][]byte{"plain": src, "byte order mark": append([]byte("\xef\xbb\xbf"), src...)} {
		got, err := parsed("sample.json", src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// MA-130 (management-api.md 4.2): an empty value has no effect, or is refused by name. No empty
// value makes a subscription without messages.
func TestEmptyValues(t *testing.T) {
	t.Parallel()
	const (
		unruled  = "t:[] t/Subscriptions/s:[]" // the broker gives such a subscription $Default
		subs     = `"Topics":[{"Name":"t","Subscriptions":[{"Name":"s",%s}]}]`
		queue    = `"Queues":[{"Name":"q","Properties":{%s}}]`
		rule     = `"Topics":[{"Name":"t","Subscriptions":[{"Name":"s","Rules":[{"Name":"r","Properties":{%s}}]}]}]`
		rules    = "Topics[0].Subscriptions[0].Rules"
		ofRule   = rules + "[0].Properties."
		ofAccess = "Queues[0].Properties.AuthorizationRules"
	)
	// want: the entities with their rules, or the beginning of the complaint
	for _, c := range []struct{ in, part, want string }{
		{subs, `"Rules":[]`, unruled},
		{subs, `"Rules":null`, unruled},
		{subs, `"Rules":[null]`, rules + "[0]: must be an object, not null"},
		{subs, `"Rules":{}`, rules + ": must be an array"},
		{subs, `"Rules":""`, rules + ": must be an array"},
		{`"Topics":[{"Name":"t",%s}]`, `"Subscriptions":[]`, "t:[]"},
		{`"Topics":[{"Name":"t",%s}]`, `"Subscriptions":null`, "t:[]"},
		{rule, `"FilterType":""`, ofRule + "FilterType: \"\" is not one of"},
		{rule, `"FilterType":null`, ofRule + "FilterType: missing"},
		{rule, `"FilterType":"Sql","SqlFilter":{"SqlExpression":""}`, ofRule + "SqlFilter.SqlExpression: filter: "},
		{rule, `"FilterType":"Sql","SqlFilter":{}`, ofRule + "SqlFilter.SqlExpression: missing"},
		{rule, `"FilterType":"Sql","SqlFilter":null`, ofRule + "SqlFilter: missing"},
		{rule, `"FilterType":"Sql","SqlFilter":{"SqlExpression":"a=1"},"Action":{"SqlExpression":""}`, "t:[] t/Subscriptions/s:[r]"},
		{rule, `"FilterType":"Correlation","CorrelationFilter":{}`, ofRule + "CorrelationFilter: filter: a correlation filter needs"},
		{rule, `"FilterType":"Correlation","CorrelationFilter":{"Label":null}`, ofRule + "CorrelationFilter: filter: a correlation filter needs"},
		{rule, `"FilterType":"Correlation","CorrelationFilter":{"Label":"x","Properties":{"a":null}}`, ofRule + "CorrelationFilter: filter: the property 'a'"},
		{queue, `"ForwardTo":"","UserMetadata":"","LockDuration":null`, "q:[]"},
		{queue, `"ForwardTo":"/"`, "Queues[0].Properties.ForwardTo: there is no"},
		{queue, `"LockDuration":""`, "Queues[0].Properties.LockDuration: \"\" is not"},
		{queue, `"Status":""`, "Queues[0].Properties.Status: \"\" is not one of"},
		{queue, `"AuthorizationRules":[]`, "q:[]"},
		{queue, `"AuthorizationRules":[{"KeyName":"","Rights":["Send"],"PrimaryKey":"k"}]`, ofAccess + ": The name of an authorization rule"},
		{queue, `"AuthorizationRules":[{"KeyName":"a","Rights":[],"PrimaryKey":"k"}]`, ofAccess + ": The authorization rule 'a' has no right"},
		{queue, `"AuthorizationRules":[{"KeyName":"a","Rights":["Send"],"PrimaryKey":""}]`, ofAccess + ": A key of the authorization rule 'a' has 0 bytes"},
	} {
		got, err := parsed("q.json", []byte("{"+fmt.Sprintf(c.in, c.part)+"}"))
		var text []string
		for _, e := range got {
			names := []string{}
			for _, r := range e.Rules {
				names = append(names, r.Name)
			}
			if text = append(text, fmt.Sprint(e.Path, ":", names)); e.OnlyRules != (len(names) > 0) {
				t.Errorf("%s: %s: OnlyRules %v with the rules %v", c.part, e.Path, e.OnlyRules, names)
			}
		}
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), "q.json:1: "+c.want):
			t.Errorf("%s: %v, want %s", c.part, err, c.want)
		case err == nil && strings.Join(text, " ") != c.want:
			t.Errorf("%s: %s, want %s", c.part, strings.Join(text, " "), c.want)
		}
	}
}

// MA-120: the example of `make run` has the same shape.
func TestExample(t *testing.T) {
	t.Parallel()
	got, _, err := ReadEntities("../../docs/examples/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range got {
		paths = append(paths, fmt.Sprint(e.Path, " ", len(e.Rules)))
	}
	want := "queue 0, orders 0, payments 0, baskets 0, invoices 0, shipments 0, shipments/Subscriptions/all 0, shipments/Subscriptions/express 1, shipments/Subscriptions/heavy 1"
	if text := strings.Join(paths, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// The two examples of entity files.
func TestExampleInYAML(t *testing.T) {
	t.Parallel()
	f, err := readEntities("../../docs/examples/entities.yaml", readMode{})
	if err != nil || len(f.put) != 6 || len(f.put[5].Rules) != 2 {
		t.Errorf("%+v, %v; want len(f.put) == 6 && len(f.put[5].Rules) == 2", f, err)
	}
}

// Properties that are left out have the emulator's defaults where they differ from the service's
// (SM-314).
func TestDefaultsOfTheFile(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.EntityKind{event.Queue, event.Topic, event.Subscription} {
		want := engine.DefaultProperties(kind)
		want.DefaultMessageTimeToLive = time.Hour
		switch kind {
		case event.Queue:
			want.MaxDeliveryCount, want.DuplicateDetectionWindow = 3, 20*time.Second
		case event.Topic:
			want.DuplicateDetectionWindow = 20 * time.Second
		case event.Subscription:
			want.MaxDeliveryCount = 3
		}
		if diff := cmp.Diff(want, emulatorDefaults(kind)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// The ranges of table 1.3: SM-099 (MaxDeliveryCount), SM-169 (the window), SM-301
// (AutoDeleteOnIdle). They are the engine's; the messages have path and line.
func TestBoundsOfProperties(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ property, want string }{ // want: part of the complaint, "" for none
		{`"LockDuration": "PT5S"`, ""},
		{`"LockDuration": "PT4.999S"`, "below the allowed minimum of '5' seconds"},
		{`"LockDuration": "PT5M"`, ""},
		{`"LockDuration": "PT5M0.001S"`, "exceeds the allowed maximum of '5' minutes"},
		{`"DuplicateDetectionHistoryTimeWindow": "PT20S"`, ""},
		{`"DuplicateDetectionHistoryTimeWindow": "PT19.999S"`, "between 00:00:20 and 7.00:00:00"},
		{`"DuplicateDetectionHistoryTimeWindow": "P7D"`, ""},
		{`"DuplicateDetectionHistoryTimeWindow": "P7DT0.001S"`, "between 00:00:20 and 7.00:00:00"},
		{`"DefaultMessageTimeToLive": "PT1S"`, ""},
		{`"DefaultMessageTimeToLive": "PT0.999S"`, "at least 00:00:01"},
		{`"DefaultMessageTimeToLive": "P30D"`, ""},
		{`"DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"`, ""},
		{`"AutoDeleteOnIdle": "P10675199DT2H48M5.4775807S"`, ""},
		{`"AutoDeleteOnIdle": "PT4M59.999S"`, "at least 00:05:00"},
		{`"AutoDeleteOnIdle": "PT5M"`, ""},
		{`"MaxDeliveryCount": 1`, ""},
		{`"MaxDeliveryCount": 0`, "between 1 and 2147483647"},
		{`"MaxDeliveryCount": 50`, ""},
		{`"MaxDeliveryCount": 2147483647`, ""},
		{`"MaxDeliveryCount": 2147483648`, "between 1 and 2147483647"},
		{`"MaxDeliveryCount": 4294967296`, "is not a whole number"},
		{`"MaxDeliveryCount": 1.5`, "is not a whole number"},
		{`"MaxSizeInMegabytes": 1`, ""},
		{`"MaxSizeInMegabytes": 5120`, ""},
		{`"MaxSizeInMegabytes": 5121`, "at most 1024 or a multiple of it"},
		{`"MaxMessageSizeInKilobytes": 102400`, ""},
		{`"MaxMessageSizeInKilobytes": 102401`, "between 1 and 102400"},
		{`"Status": "Active"`, ""}, {`"Status": "Disabled"`, ""}, {`"Status": "SendDisabled"`, ""}, {`"Status": "ReceiveDisabled"`, ""},
		{`"Status": "Deleting"`, "is not one of Active, Disabled"},
		{`"RequiresSession": true`, ""}, {`"RequiresDuplicateDetection": true`, ""}, {`"EnablePartitioning": true`, ""}, {`"EnableExpress": true`, ""},
		{`"UserMetadata": "` + strings.Repeat("é", 1024) + `"`, ""},
		{`"UserMetadata": "` + strings.Repeat("é", 1025) + `"`, "more than 1024 characters"},
		{`"DeadLetteringOnFilterEvaluationExceptions": true`, "a queue does not have this property"},
	} {
		file := `{"Queues":[` + "\n" + `{"Name":"q","Properties":{` + c.property + `}}]}`
		_, err := parsed("q.json", []byte(file))
		name, _, _ := strings.Cut(strings.Trim(c.property, `"`), `"`)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.property, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "q.json:2: Queues[0].Properties."+name+": ")):
			t.Errorf("%s: got %v, want %q", c.property, err, c.want)
		}
	}
}

// SM-321: one queue or topic more than a namespace may have. MA-124: 200 are not many.
func TestTooManyEntities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		queues, topics int
		want           bool
	}{{200, 0, true}, {maxEntities, 0, true}, {maxEntities - 1, 1, true}, {maxEntities, 1, false}, {0, maxEntities + 1, false}} {
		names := func(letter string, n int) string {
			all := make([]string, n)
			for i := range all {
				all[i] = fmt.Sprintf(`{"Name":"%s%d"}`, letter, i)
			}
			return strings.Join(all, ",\n")
		}
		got, err := parsed("q.json", []byte(`{"Queues":[`+names("q", c.queues)+`],"Topics":[`+names("t", c.topics)+`]}`))
		if (err == nil) != c.want || (c.want && len(got) != c.queues+c.topics) {
			t.Errorf("%d queues, %d topics: %v", c.queues, c.topics, err)
		}
	}
}

// MA-121: all mistakes at once, each with path and line.
func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"broken.json", "broken.yaml"} {
		src, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		_, err = parsed(name, src)
		if err == nil {
			t.Fatal("accepted")
		}
		golden(t, name+".txt", err.Error()+"\n")
	}
}

func TestEntityFileShape(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"":                                 "q.json:1: not valid JSON: the document ends too early",
		"{\n\"UserConfig\": {":             "q.json:2: not valid JSON: the document ends too early",
		"{\n\"UserConfig\" {} }":           "q.json:2: not valid JSON: invalid character '{' after object key",
		"{} {}":                            "q.json:1: not valid JSON: more text after the document's end",
		"[]":                               "q.json:1: must be an object, not an array",
		"{}":                               "q.json:1: UserConfig: missing; without it, Queues and Topics may be at the top of the file",
		`{"UserConfig": {}}`:               "q.json:1: UserConfig.Namespaces: missing",
		`{"UserConfig": null}`:             "q.json:1: UserConfig: missing; without it, Queues and Topics may be at the top of the file",
		`{"UserConfig":{"Namespaces":7}}`:  "q.json:1: UserConfig.Namespaces: must be an array, not a number",
		`{"UserConfig":{"Namespaces":[]}}`: "q.json:1: UserConfig.Namespaces: must have one namespace",
		`{"UserConfig":{"Namespaces":[{"Name":"n","Queues":[{"Name":7}]}]}}`: "q.json:1: UserConfig.Namespaces[0].Queues[0].Name: must be a string, not a number",
		`{"Queues":{}}`: "q.json:1: Queues: must be an array, not an object",
		`{"Queues":[],"UserConfig":{"Namespaces":[{"Name":"n"}]}}`: "q.json:1: Queues: unknown key; known are $schema, UserConfig" + strictness,
		strings.Repeat("[", 100):                                   "q.json:1: not valid JSON: nested deeper than 64 levels",
	} {
		_, err := parsed("q.json", []byte(src))
		if err == nil || err.Error() != want {
			t.Errorf("%.40s:\n got %v\nwant %s", src, err, want)
		}
	}
}

// SM-326, MA-122: the length and the characters of a name. SM-102: a name of a sub-queue is
// refused.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders": "orders", "a": "a", "Orders_1.eu-x~y/z": "Orders_1.eu-x~y/z", `eu\orders`: "eu/orders",
		strings.Repeat("a", 260): strings.Repeat("a", 260),
		strings.Repeat("a", 261): "", "": "", "/a": "", "a/": "", "a//b": "", "_a": "_a", "-a": "-a", "a--": "a--", "a~": "a~", ".a": "", "a.": "", "a b": "", "a@b": "", "a?b": "",
		"a#b": "", "a*b": "", "é": "", "a/$management": "", "t/Subscriptions/s": "", "a\nb": "",
		"a/$DeadLetterQueue": "", "a/$deadletterqueue": "", "a/$Transfer/$DeadLetterQueue": "", "$Default": "",
	} {
		got, err := cleanPath(event.Topic, name)
		if (err == nil) != (want != "") || (err == nil && got != want) {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]bool{"s": true, strings.Repeat("s", 50): true, strings.Repeat("s", 51): false, "a/b": false, `a\\b`: false, "$s": false} {
		_, err := parsed("q.json", []byte(`{"Topics":[{"Name":"t","Subscriptions":[{"Name":"`+name+`"}]}]}`))
		if (err == nil) != want {
			t.Errorf("subscription %q: %v", name, err)
		}
	}
}

// management-api.md 3.8: the destination of ForwardTo must be in the file, in any letter case or as
// a URL.
func TestForwarding(t *testing.T) {
	t.Parallel()
	const file = `{"Queues":[{"Name":"Orders"},{"Name":"team/dead"},{"Name":"source","Properties":{
"ForwardTo":"%s","ForwardDeadLetteredMessagesTo":"%s"}}],"Topics":[{"Name":"events","Subscriptions":[{"Name":"s","Properties":{
"ForwardTo":"%s"}}]}]}`
	for _, c := range []struct {
		to, dead, subscription string
		want                   string // stored names, or part of the complaint
	}{
		{"orders", "team/dead", "Orders", "orders team/dead Orders"},
		{"sb://BUS.example/ORDERS", `team\\dead`, "", "ORDERS team/dead "},
		{"https://localhost:5300/events", "", "", "events  "},
		{"events", "events", "events", "events events events"},
		{"source", "SOURCE", "events", "source SOURCE events"}, // to itself: hops are counted
		{"", "", "events/Subscriptions/s", `q.json:3: Topics[0].Subscriptions[0].Properties.ForwardTo: there is no queue or topic named "events/Subscriptions/s"`},
		{"order", "", "", `the closest is "Orders"`},
	} {
		f, err := parseEntities("q.json", fmt.Appendf(nil, file, c.to, c.dead, c.subscription), readMode{}, nil)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v; want strings.Contains(err.Error(), c.want)", c, err)
			}
			continue
		}
		p, s := f.put[2].Properties, f.put[4].Properties
		if got := p.ForwardTo + " " + p.ForwardDeadLetteredMessagesTo + " " + s.ForwardTo; got != c.want {
			t.Errorf("%v: %s, want %s", c, got, c.want)
		}
	}
}

// A partitioned queue keeps no order unless the file says so (semantics.md 1.3).
func TestPartitionedKeepsNoOrder(t *testing.T) {
	t.Parallel()
	file := write(t, "e.json", `{"Queues":[{"Name":"a","Properties":{"EnablePartitioning":true}}]}`, 0o644)
	s, err := Load(Sources{Flags: map[string][]string{"entities": {file}}})
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Entities.Put[0].Properties; p.SupportOrdering || !p.EnablePartitioning {
		t.Errorf("%+v; want !p.SupportOrdering && p.EnablePartitioning", p)
	}
}

// Access rules of queues and topics (management-api.md 3.7; issue 128 of the emulator), and the
// mode of a file that has them.
func TestAccessRulesOfEntities(t *testing.T) {
	t.Parallel()
	const text = `{"Topics":[{"Name":"t","Properties":{"AuthorizationRules":[
{"KeyName":"app","Rights":["Send","Listen"],"PrimaryKey":"MARKER-1","SecondaryKey":"MARKER-2"},{"KeyName":"one","Rights":["Send"],"PrimaryKey":"MARKER-3"}]}}]}`
	got, _, err := ReadEntities(write(t, "e.json", text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	want := []event.AccessRule{
		{Name: "app", Rights: event.Rights{event.Send, event.Listen}, Primary: "MARKER-1", Secondary: "MARKER-2"},
		{Name: "one", Rights: event.Rights{event.Send}, Primary: "MARKER-3", Secondary: "MARKER-3"},
	}
	if diff := cmp.Diff(want, got[0].Properties.AccessRules, revealed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	open := write(t, "e.json", text, 0o644)
	_, _, err = ReadEntities(open)
	if prefix := open + ":2: Topics[0].Properties.AuthorizationRules[0].PrimaryKey: "; err == nil || !strings.HasPrefix(err.Error(), prefix) ||
		strings.Contains(err.Error(), "MARKER") {
		t.Errorf("keys that others may read: %v", err)
	}
}

func TestEntitiesInYAML(t *testing.T) {
	t.Parallel()
	got, _, err := ReadEntities("testdata/entities.yaml")
	if err != nil {
		t.Fatal(err)
	}
	usual := func(p *event.Properties) { p.LockDuration, p.MaxDeliveryCount = 30*time.Second, 10 }
	big := put(event.Subscription, "events/Subscriptions/big")
	big.OnlyRules, big.Rules = true, []event.Rule{
		{Name: "big", Filter: event.Filter{Kind: event.SQLFilter, Text: "qty > 5"}},
		{Name: "eu", Filter: event.Filter{Kind: event.CorrelationFilter, Conditions: []event.Condition{{Field: event.FieldLabel, Text: "2026-01-31"}},
			Properties: []event.Property{
				{Name: "n", Value: event.Value{Type: event.Int, Bits: 16}}, {Name: "r", Value: event.Value{Type: event.Double, Bits: math.Float64bits(1)}},
				{Name: "t", Value: event.Value{Type: event.Bool, Bits: 1}}, {Name: "s", Value: event.Value{Type: event.String, Text: "7"}},
			}}},
	}
	all := put(event.Subscription, "events/Subscriptions/all")
	all.OnlyRules, all.Rules = true, []event.Rule{{Name: "all", Filter: event.Filter{Kind: event.TrueFilter}}}
	want := []engine.PutEntity{
		put(event.Queue, "orders", usual), put(event.Queue, "123", usual),
		put(event.Queue, "dead", func(p *event.Properties) { p.Status, p.UserMetadata = event.SendDisabled, "two\nlines\n" }),
		put(event.Topic, "events"), put(event.Subscription, "events/Subscriptions/audit"), big, all,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestYAMLShape(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"":                          "q.yml:1: the file has no document",
		"Queues: [\n":               "q.yml:1: not valid YAML: did not find expected node content",
		"Queues: []\n---\na: b\n":   "q.yml: more than one YAML document",
		"? [a]\n: b\n":              "q.yml:1: an object's key must be a string",
		"Queues:\n- Name: .inf\n":   "q.yml:2: .inf is not a number",
		"Queues:\n- Name: !x y\n":   "q.yml:2: a value with the tag !x is not supported",
		"Queues: &a\n- *a\n":        "q.yml:1: nested deeper than 64 levels",
		"Queues: *marker\n":         "q.yml: not valid YAML: unknown anchor '***' referenced",
		"UserConfig:\n  Queues: []": "q.yml:2: UserConfig.Queues: unknown key; known are Logging, Namespaces" + strictness + "\nq.yml:2: UserConfig.Namespaces: missing",
	} {
		_, err := parsed("q.yml", []byte(src))
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", src, err, want)
		}
	}
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 10 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	if _, err := parsed("q.yml", []byte(laughs.String())); err == nil || !strings.Contains(err.Error(), "aliases expand to more than") {
		t.Errorf("aliases of aliases: %v", err)
	}
}

func TestClosest(t *testing.T) {
	t.Parallel()
	words := []string{"LockDuration", "MaxDeliveryCount", "Name", "To"}
	for word, want := range map[string]string{
		"lockduration": "LockDuration", "LockDurations": "LockDuration", "MaxDelivryCuont": "", "MaxDeliveryCnt": "MaxDeliveryCount", "Nmae": "Name", "Colour": "",
		"ab": "", "": "",
	} {
		if got := findClosest(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func FuzzEntities(f *testing.F) {
	for _, name := range []string{"sample.json", "broken.json", "entities.yaml", "broken.yaml"} {
		src, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, strings.HasSuffix(name, ".yaml"))
	}
	f.Fuzz(func(t *testing.T, src []byte, asYAML bool) {
		name := "f.json"
		if asYAML {
			name = "f.yaml"
		}
		got, err := parsed(name, src)
		if err != nil && got != nil {
			t.Fatal("entities together with an error")
		}
		for _, e := range got {
			if err := engine.CheckPath(e.Kind, e.Path); err != nil {
				t.Fatalf("%q is no path: %v", e.Path, err)
			}
			if faults := engine.CheckProperties(e.Kind, engine.Unbound, &e.Properties); faults != nil {
				t.Fatalf("%q: %v, want nil", e.Path, faults)
			}
		}
		again(t, got)
	})
}
