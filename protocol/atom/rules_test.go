package atom

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// MA-080 to MA-082, MA-090: rules that a subscription is created with, and later ones.
func TestDefaultRule(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t", "t/Subscriptions/s")
	a.get("/t/Subscriptions/s/Rules/$default").is(200, `<id>http://bus.example:5300/t/Subscriptions/s/Rules/$Default?`, `<title type="text">$Default</title>`,
		`<Filter i:type="TrueFilter"><SqlExpression>1=1</SqlExpression><CompatibilityLevel>20</CompatibilityLevel></Filter><Action i:type="EmptyRuleAction"/>`).lacks("<author>")
	with := func(rule string) string {
		return subscription("<LockDuration>PT1M</LockDuration><DefaultRuleDescription>" + rule + "</DefaultRuleDescription>")
	}
	a.put("/t/Subscriptions/named", with(`<Filter i:type="SqlFilter"><SqlExpression>a=1</SqlExpression></Filter><Action i:type="EmptyRuleAction"/><Name>mine</Name>`)).is(201).lacks("DefaultRule", "mine")
	a.get("/t/Subscriptions/named/Rules/mine").is(200, "<SqlExpression>a=1<")
	a.get("/t/Subscriptions/named/Rules/$Default").is(404, "<Detail>Entity 'ns:Topic:t|named|$Default' was not found.")
	a.put("/t/Subscriptions/unnamed", with(`<Filter i:type="FalseFilter"/>`)).is(201)
	a.get("/t/Subscriptions/unnamed/Rules/$Default").is(200, "FalseFilter")
	a.put("/t/Subscriptions/bad", with(`<Filter i:type="SqlFilter"><SqlExpression>??</SqlExpression></Filter>`)).is(400)
	a.put("/t/Subscriptions/bad", with(`<Name>a b</Name>`)).is(400)
	a.get("/t/Subscriptions/bad").notFound()
	// honoured at creation only
	a.update("/t/Subscriptions/s", with(`<Filter i:type="FalseFilter"/>`)).is(200)
	a.get("/t/Subscriptions/s/Rules/$Default").is(200, "TrueFilter")
	a.put("/t/Subscriptions/s/Rules/", rule(`<Filter i:type="TrueFilter"/><Name>body</Name>`)).is(201, `<id>http://bus.example:5300/t/Subscriptions/s/Rules/body?`, "<Name>body</Name>")
	a.put("/t/Subscriptions/s/Rules", rule(`<Filter i:type="TrueFilter"/><Name>$Default</Name>`)).is(409, "'ns:Topic:t|s|$Default' already exists.")
	a.put("/t/Subscriptions/s/Rules/", rule(`<Filter i:type="TrueFilter"/>`)).is(400)
	a.put("/t/Subscriptions/s/Rules/path", rule(`<Filter i:type="TrueFilter"/><Name>other</Name>`)).is(201, "<Name>path</Name>")
	a.get("/t/Subscriptions/s/Rules/missing").is(404)
	a.get("/t/Subscriptions/missing/Rules/r").is(404, "<Detail>Entity 'ns:Topic:t|missing|r' was not found.")
}

// MA-083 to MA-085, MA-087, MA-089: a rule is returned as it was given.
func TestRules(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t", "t/Subscriptions/s")
	const base = "/t/Subscriptions/s/Rules/"
	value := func(typ, text string) string {
		return `<KeyValueOfstringanyType><Key>@p</Key><Value i:type="l28:` + typ + `" xmlns:l28="http://www.w3.org/2001/XMLSchema">` + text + `</Value></KeyValueOfstringanyType>`
	}
	n := 0
	for in, out := range map[string]string{
		`<Filter i:type="SqlFilter"><SqlExpression>qty &gt; @p</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters/></Filter>`: `<Filter i:type="SqlFilter"><SqlExpression>qty &gt; @p</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters/></Filter><Action i:type="EmptyRuleAction"/><CreatedAt>`,
		`<Filter i:type="SqlFilter"><SqlExpression>1=1</SqlExpression></Filter>`:                                                                 `<Filter i:type="SqlFilter"><SqlExpression>1=1<`,
		`<Filter i:type="TrueFilter"/>`:  `<Filter i:type="TrueFilter"><SqlExpression>1=1<`,
		`<Filter i:type="FalseFilter"/>`: `<Filter i:type="FalseFilter"><SqlExpression>1=0<`,
		``:                               `<Filter i:type="TrueFilter">`,
		`<Filter i:type="CorrelationFilter"><Label>x</Label><CorrelationId>c</CorrelationId></Filter>`:                                                              `<Filter i:type="CorrelationFilter"><CorrelationId>c</CorrelationId><Label>x</Label><Properties/></Filter>`,
		`<Filter i:type="CorrelationFilter"><Properties>` + value("long", "5") + `</Properties></Filter>`:                                                           `<Properties><KeyValueOfstringanyType><Key>@p</Key><Value i:type="d6p1:long" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">5</Value></KeyValueOfstringanyType></Properties>`,
		`<Filter i:type="SqlFilter"><SqlExpression>a=@p</SqlExpression><Parameters>` + value("dateTime", "2026-01-02T03:04:05.1234567Z") + `</Parameters></Filter>`: `d6p1:dateTime" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">2026-01-02T03:04:05.1234567Z<`,
		`<Action i:type="SqlRuleAction"><SqlExpression>SET a = @p</SqlExpression><Parameters>` + value("int", "7") + `</Parameters></Action>`:                       `<Action i:type="SqlRuleAction"><SqlExpression>SET a = @p</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters><KeyValueOfstringanyType><Key>@p</Key><Value i:type="d6p1:int"`,
	} {
		n++
		path := fmt.Sprintf("%sr%d", base, n)
		a.put(path, rule(in)).is(201, out)
		a.get(path).is(200, out)
	}
	for _, in := range []string{
		`<Filter i:type="SqlFilter"><SqlExpression>??</SqlExpression></Filter>`,
		`<Filter i:type="SqlFilter"/>`,
		`<Filter i:type="OtherFilter"/>`,
		`<Filter i:type="CorrelationFilter"/>`,
		`<Filter i:type="CorrelationFilter"><Properties>` + value("byte", "5") + `</Properties></Filter>`,
		`<Filter i:type="CorrelationFilter"><Properties>` + value("decimal", "5") + `</Properties></Filter>`,
		`<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>k</Key><Value i:nil="true"/></KeyValueOfstringanyType></Properties></Filter>`,
		`<Filter i:type="SqlFilter"><SqlExpression>` + strings.Repeat("a", 1025) + `</SqlExpression></Filter>`,
	} {
		a.put(base+"bad", rule(in)).is(400, "SubCode=40000")
		a.update(base+"$Default", rule(in)).is(400, "SubCode=40000")
	}
	a.get(base + "bad").is(404)
	a.get(base+"$Default").is(200, "TrueFilter")
	a.put(base+strings.Repeat("r", 50), rule("")).is(201)
	a.put(base+strings.Repeat("r", 51), rule("")).is(400)
	a.put(base+"a%2Fb", rule("")).is(400)
	before := a.get(base + "r1").parse().Entry.Rule
	a.update(base+"R1", rule(`<Filter i:type="FalseFilter"/>`)).is(200, "<Name>r1</Name>", "FalseFilter", `<title type="text">r1</title>`)
	if after := a.get(base + "r1").parse().Entry.Rule; after.CreatedAt != before.CreatedAt {
		t.Error("an update changed when the rule was made")
	}
	a.update(base+"missing", rule("")).is(404, "<Detail>Entity 'ns:Topic:t|s|missing' was not found.")
	a.put("/t/Subscriptions/missing/Rules/r", rule("")).is(404, "<Detail>The messaging entity 'ns:Topic:t|missing' could not be found.")
	a.put("/missing/Subscriptions/s/Rules/r", rule("")).is(404, "<Detail>The messaging entity")
	a.delete(base + "$default").is(200)
	a.delete(base+"$Default").is(404, "<Detail>The messaging entity 'ns:Topic:t|s|$Default' could not be found.")
	a.delete("/t/Subscriptions/missing/Rules/r").is(404, "<Detail>The messaging entity")
}

// MA-086: a rule that was made over AMQP is shown, whatever its values are.
func TestRuleFromElsewhere(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t", "t/Subscriptions/s")
	a.fake.rules["t/subscriptions/s"] = []event.Rule{{Name: "amqp", CreatedAt: start, Filter: event.Filter{Kind: event.CorrelationFilter,
		Properties: []event.Property{{Name: "u", Value: event.Value{Type: event.UUID, Text: "0123456789abcdef"}}, {Name: "n"}}}}}
	a.get("/t/Subscriptions/s/Rules/amqp").is(200, `d6p1:guid" xmlns:d6p1="http://schemas.microsoft.com/2003/10/Serialization/">30313233-3435-3637-3839-616263646566<`, `<Value i:nil="true"/>`)
	a.get("/t/Subscriptions/s/Rules").is(200, "<Name>amqp</Name>")
}

// A time keeps its zone in the store and in every answer; each action has RequiresPreprocessing.
func TestTimesInRules(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t", "t/Subscriptions/s")
	for _, text := range []string{"2026-01-02T03:04:05", "2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.5+02:00"} {
		parameter := func(name string) string {
			return `<KeyValueOfstringanyType><Key>` + name + `</Key><Value i:type="d6p1:dateTime" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">` + text + `</Value></KeyValueOfstringanyType>`
		}
		for _, body := range []string{
			`<Filter i:type="SqlFilter"><SqlExpression>a &lt; @t</SqlExpression><Parameters>` + parameter("@t") + `</Parameters></Filter>`,
			`<Filter i:type="CorrelationFilter"><Properties>` + parameter("t") + `</Properties></Filter>`,
			`<Action i:type="SqlRuleAction"><SqlExpression>SET a = @t</SqlExpression><Parameters>` + parameter("@t") + `</Parameters></Action>`,
		} {
			fragments := []string{">" + text + "</Value>"}
			if strings.Contains(body, "SqlRuleAction") {
				fragments = append(fragments, `</Parameters><RequiresPreprocessing>false</RequiresPreprocessing></Action>`)
			}
			a.put("/t/Subscriptions/s/Rules/r", rule(body)).is(201, fragments...)
			read := a.get("/t/Subscriptions/s/Rules/r").is(200, fragments...)
			a.get("/t/Subscriptions/s/Rules").is(200, fragments...)
			a.update("/t/Subscriptions/s/Rules/r", read.body).is(200, fragments...)
			a.delete("/t/Subscriptions/s/Rules/r").is(200)
		}
	}
}
