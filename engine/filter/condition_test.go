package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var orderColumns = []Column{{Name: "state"}, {Name: "deliveryCount"}, {Name: "enqueuedTime", Time: true}, {Name: "sessionId"}}

// orderRow returns a message in the state active with three failed deliveries, enqueued at the
// beginning of 2024, without a session.
func orderRow() []event.Value { return []event.Value{text("active"), longValue(3), newYear, {}} }

const orderBody = `{"order": {"id": 4711, "items": [{"sku": "a-1"}, {"sku": "b\u00e9"}], "paid": true, "note": null},
	"big": 12345678901234567890123, "near": 9007199254740993, "price": 19.99, "exp": 4.711e3, "huge": 1e999, "": "empty", "a b": "room", "x": 1, "x": 2}`

// outcome evaluates a condition: T, F (or unknown), or "error: " and the reason.
func outcome(t *testing.T, condition, body string) string {
	t.Helper()
	c, err := NewCondition(condition, orderColumns)
	if err != nil {
		return "refused: " + err.Error()
	}
	ok, err := c.MatchRow(orderRow())
	if ok {
		ok, err = c.MatchMessage(typed(), []byte(body))
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return map[bool]string{true: "T", false: "F"}[ok]
}

func TestCondition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ condition, want string }{
		{"state = 'active'", "T"},
		{"STATE = 'active' AND DeliveryCount >= 3", "T"},
		{"state = 'locked' OR deliveryCount > 2", "T"},
		{"sessionId IS NULL", "T"},
		{"EXISTS(sessionId)", "F"},
		{"NOT EXISTS(sessionId) AND EXISTS(state)", "T"},
		{"enqueuedTime = '2024-01-01T00:00:00Z'", "T"},
		{"enqueuedTime < '2024-01-01T00:00:00.001Z'", "T"},
		{"'2023-12-31T23:00:00-01:00' = enqueuedTime", "T"},
		{"enqueuedTime IN ('2024-01-01T00:00:00Z')", "T"},
		{"enqueuedTime > 'yesterday'", "refused: condition: enqueuedTime is compared with 'yesterday', which is no time"},
		{"stat = 'active'", "refused: condition: character 1: unknown column stat; the columns are state, deliveryCount, enqueuedTime, sessionId; "},
		{"body = 1", "refused: condition: character 1: unknown column body"},
		{"what.x = 1", "refused: condition: character 1: what is none of sys, user and body; for a member of a JSON body write body.NAME"},
		{"body.order.items[0].sku = 'a-1'", "refused: condition: character 17: unexpected [0]; a point precedes each member"},
		{"sys.Lable = 'orders'", "refused: condition: character 1: unknown system property Lable; the system properties are ContentType, "},
		{"state = ", "refused: condition: character 9: expected a value, found the end"},
		{"state = @p", "refused: condition: character 9: the parameter @p has no value"},
		{"4711", "refused: condition: character 1: a number is not a condition"},
		{strings.Repeat("x", 1025), "refused: condition: character 1025: the text is longer than 1024 characters"},

		{"sys.Label = 'orders' AND user.int = 7", "T"},
		{"sys.subject = 'orders'", "T"},
		{"property('int') = 7", "T"},
		{"user.unknown = 7", "F"},
		{"user.unknown IS NULL", "T"},
		{"deliveryCount > user.int", "F"},
		{"state > 1", "error: A string and a number cannot be ordered."},
		{"state LIKE 'act%' AND newid() IS NULL", "refused: "},

		{"body.order.id = 4711", "T"},
		{"BODY.order.id = 4711.0", "T"},
		{"body.order.id = '4711'", "F"},
		{"body.order.ID = 4711", "F"},
		{"body.ORDER.id IS NULL", "T"},
		{"body.order IS NULL AND EXISTS(body.order)", "T"},
		{"body.order.items IS NULL", "T"},
		{"body.order.items.0.sku = 'a-1'", "T"},
		{"body.order.items.[1].sku = 'bé'", "T"},
		{"body.order.items.2.sku IS NULL", "T"},
		{"body.order.items.00.sku IS NULL", "T"},
		{"body.order.items.[-1] IS NULL", "T"},
		{"body.order.id.0 IS NULL", "T"},
		{"body.order.paid", "T"},
		{"NOT body.order.paid", "F"},
		{"body.order.note IS NULL AND EXISTS(body.order.note) AND NOT EXISTS(body.order.nothing)", "T"},
		{"body.order.nothing = 1 OR state = 'active'", "T"},
		{"body.near = 9007199254740993", "T"},
		{"body.near = 9007199254740992", "F"},
		{"body.big > 9223372036854775807", "T"},
		{"body.big - 12345678901234567890122.0 >= 0", "T"},
		{"body.price = 19.99", "T"},
		{"body.price = user.dec", "T"},
		{"body.exp = 4711", "T"},
		{"body.huge IS NULL", "T"},
		{"body.[a b] = 'room'", "T"},
		{"body.x = 2", "T"},
		{"body.order.items.0.sku LIKE 'a-_' AND state = 'active' AND sys.Label = 'orders'", "T"},
		{"body.order.id > 'a'", "error: A number and a string cannot be ordered."},
		{"state = 'locked' AND body.order.id > 'a'", "F"},
		{"body.order.id > 'a' AND state = 'locked'", "F"}, // columns come first
	} {
		if got := outcome(t, c.condition, orderBody); got != c.want && (len(c.want) == 1 || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%.60s: got %s, want %s", c.condition, got, c.want)
		}
	}
}

// No body makes a condition more than unknown, and none takes much memory or stack.
func TestConditionHostileBody(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	}
	for _, c := range []struct{ name, body, want string }{
		{"nothing", ``, "F"},
		{"spaces", "  \n", "F"},
		{"text", `hello`, "F"},
		{"unfinished", `{"a": 1`, "F"},
		{"more than one", `{"a": 1} {"a": 1}`, "F"},
		{"no object", `[1]`, "F"},
		{"scalar", `1`, "F"},
		{"null", `null`, "F"},
		{"mark and room", "\ufeff \t{ \"a\" : 1 }\r\n", "T"},
		{"escaped name", `{"\u0061": 1}`, "T"},
		{"escaped quote", `{"b\"": "\\\"", "a": 1}`, "T"},
		{"same name twice", `{"a": 1, "a": 2}`, "F"},
		{"many of the same name", "{" + strings.Repeat(`"a":2,`, 100_000) + `"a":1}`, "T"},
		{"long number", `{"a": ` + strings.Repeat("1", 1<<20) + `}`, "F"},
		{"long fraction", `{"a": 1.` + strings.Repeat("0", 1<<20) + `}`, "T"},
		{"large exponent", `{"a": 1e99999999999}`, "F"},
		{"long name", `{"` + strings.Repeat("a", 1<<20) + `": 1}`, "F"},
		{"unfinished string", `{"a": 1, "b": "` + strings.Repeat(`\`, 1<<20), "F"},
		{"deep", `{"b": ` + deep(900) + `, "a": 1}`, "T"},
		{"too deep", `{"b": ` + deep(1000) + `, "a": 1}`, "F"},
		{"never closed", strings.Repeat("[", 8<<20), "F"},
		{"no UTF-8", "{\"a\": \"\xff\", \"a\": 1}", "T"},
	} {
		if got := outcome(t, "body.a = 1", c.body); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestConditionReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		condition        string
		properties, body bool
	}{
		{"state = 'active'", false, false},
		{"state = 'active' AND sys.Label = 'x'", true, false},
		{"state = 'active' OR user.x IS NULL", true, false},
		{"property('x') = 1", true, false},
		{"body.x = 1", false, true},
		{"EXISTS(body.x)", false, true},
		{"state = 'active' OR (NOT body.x AND sys.To LIKE 'a%')", true, true},
	} {
		k, err := NewCondition(c.condition, orderColumns)
		if err != nil {
			t.Fatal(err)
		}
		if k.ReadsProperties() != c.properties || k.ReadsBodies() != c.body {
			t.Errorf("%s: reads properties %t, bodies %t", c.condition, k.ReadsProperties(), k.ReadsBodies())
		}
	}
}

// A rule has neither columns nor members of a body: for it, body is a wrong scope.
func TestRuleWithBody(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"body.x = 1", "BODY.x IS NULL", "a = 1 AND body.x = 1"} {
		at := strings.Index(strings.ToLower(text), "body") + 1
		refused(t, sqlRule("r", text, ""), at, text[at-1:at+3]+" is neither sys nor user")
	}
	refused(t, sqlRule("r", "a = 1", "SET body.x = 1"), 5, "body is neither sys nor user")
	refused(t, sqlRule("r", "a.0.b = 1", ""), 2, "unexpected .0")
}

// Nothing is allocated for a message: the condition keeps its memory.
func TestConditionAllocates(t *testing.T) {
	c, err := NewCondition("body.order.id = 4712 AND state = 'active' AND body.order.paid", orderColumns)
	if err != nil {
		t.Fatal(err)
	}
	row, body := orderRow(), []byte(orderBody)
	allocated := testing.AllocsPerRun(100, func() {
		if ok, err := c.MatchRow(row); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := c.MatchMessage(nil, body); ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	if allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}

// A condition that looks through a large body again and again ends with an error.
func TestConditionOnLargeBodyEnds(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":[` + strings.Repeat("1,", 8<<20) + `1]}`)
	for _, c := range []struct {
		members int
		fails   bool
	}{{3, false}, {50, true}} {
		var terms []string
		for i := range c.members {
			terms = append(terms, fmt.Sprintf("body.b%d = 1", i))
		}
		condition, err := NewCondition(strings.Join(terms, " OR "), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = condition.MatchRow(nil)
		if err == nil {
			_, err = condition.MatchMessage(nil, body)
		}
		if (err != nil) != c.fails {
			t.Errorf("%d members: %v", c.members, err)
		}
	}
}

// FuzzCondition: no text panics, and a text that parses prints to a text with the same tree.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{"body.order.items.0.[a b] = 1 AND NOT state IN ('a', 'b')", "EXISTS(body.x) OR enqueuedTime > '2024-01-01'", "sys.To LIKE user.[a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := NewCondition(s, orderColumns)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%q is refused with %v", s, err)
			}
			return
		}
		if ok, err := c.MatchRow(orderRow()); ok && err == nil {
			c.MatchMessage(fuzzMessage(), []byte(orderBody))
		}
		parse := func(s string) *expr {
			p := &parser{lexer: lexer{src: s, pos: 1}, ofRows: true}
			p.advance()
			e := p.whole()
			if p.err != nil {
				t.Fatalf("%q: %v", s, p.err)
			}
			return e
		}
		tree := parse(s)
		if printed := tree.String(); parse(printed).String() != printed {
			t.Fatalf("%q is printed %q, and that %q", s, printed, parse(printed))
		}
	})
}

// FuzzDocument: no body panics, and a member has the value that encoding/json finds.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{orderBody, `[[1, {"a": [2]}], "x"]`, `{"a": {"a": {"a": 1.50}}, "a": {"a": [0, {"0": "\ud83d\ude00"}]}}`, ` {"":{"":0}} `, `{"a":-0,"0":1E-2}`} {
		f.Add([]byte(s), "a", "0")
	}
	f.Fuzz(func(t *testing.T, body []byte, first, second string) {
		d := &document{}
		at := d.add([]string{first, second})
		if d.add([]string{first, second}) != at {
			t.Fatal("the path is there twice")
		}
		d.look(body)
		got := *d.member(at, &machine{steps: maxSteps})
		if !utf8.Valid(body) || strings.Contains(strings.ToLower(string(body)), `\ud`) {
			return // what is no UTF-8 is replaced by encoding/json
		}
		want, there := oracleMember(body, first, second)
		if got.exists != there || !sameJSON(got.value, want) {
			t.Fatalf("%q: %q.%q is %+v, want %v, %t", body, first, second, got, want, there)
		}
	})
}

// oracleMember finds a member by means of encoding/json.
func oracleMember(body []byte, path ...string) (v any, there bool) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if !json.Valid(body) || dec.Decode(&v) != nil {
		return nil, false
	}
	for _, name := range path {
		switch of := v.(type) {
		case map[string]any:
			if v, there = of[name]; !there {
				return nil, false
			}
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || strconv.Itoa(n) != name || n < 0 || n >= len(of) {
				return nil, false
			}
			v = of[n]
		default:
			return nil, false
		}
	}
	return v, true
}

func sameJSON(got event.Value, want any) bool {
	switch want := want.(type) {
	case bool:
		return got == truthValue(truthOf(want))
	case string:
		return got == text(want)
	case json.Number:
		f, err := want.Float64()
		return err != nil && got.Type == event.Null || isNumber(got.Type) && double(got) == f
	}
	return got.Type == event.Null
}
