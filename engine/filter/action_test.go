package filter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// run runs an action on a message and describes the changes: "set NAME=TYPE:TEXT", "remove NAME",
// "sys NAME=...", by semicolons; or "error: " and why.
func run(t testing.TB, action string, m *Message, params ...event.Property) string {
	t.Helper()
	var c Changes
	if err := compiledAction(t, action, params).Run(m, ids(), &c); err != nil {
		var e *EvalError
		if !errors.As(err, &e) {
			t.Errorf("%s: %T; want errors.As(err, &e)", action, err)
		}
		return "error: " + err.Error()
	}
	return describe(&c)
}

func compiledAction(t testing.TB, action string, params []event.Property) *Rule {
	t.Helper()
	r := sqlRule("r", "1=1", action)
	r.Action.Parameters = params
	s := NewSet()
	if err := s.Put(1, r); err != nil {
		t.Fatalf("%s: %v", action, err)
	}
	return s.Match(&Message{}, nil)[0].Actions[0]
}

func describe(c *Changes) string {
	names := [...]string{"null", "bool", "int", "long", "double", "decimal", "string", "uuid", "timestamp", "span"}
	value := func(v event.Value) string {
		if v.Type == event.Null {
			return "null"
		}
		return names[v.Type] + ":" + string(appendText(nil, v))
	}
	var out []string
	for _, u := range c.user {
		switch {
		case !u.removed:
			out = append(out, "set "+u.name+"="+value(u.value))
		case u.sent:
			out = append(out, "remove "+u.name)
		}
	}
	for p := range SystemCount {
		if v, changed := c.System(p); changed {
			out = append(out, "sys "+p.String()+"="+value(v))
		}
	}
	return strings.Join(out, "; ")
}

type actionCase struct{ action, properties, want string }

func runActions(t *testing.T, cases []actionCase) {
	t.Helper()
	for _, c := range cases {
		m := message(t, c.properties)
		before := fmt.Sprint(m)
		if got := run(t, c.action, m); got != c.want && (!strings.HasPrefix(c.want, "error: ") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s with {%s}: %s\nwant %s", c.action, c.properties, got, c.want)
		}
		if fmt.Sprint(m) != before {
			t.Errorf("%s changed the message itself", c.action)
		}
	}
}

// SM-357: several statements, with and without semicolons; later ones see earlier results.
func TestStatements(t *testing.T) {
	t.Parallel()
	const want = "set a=long:2; set b=uuid:00000000-0000-0000-0000-000000000001; remove c"
	runActions(t, []actionCase{
		{"SET a = a + 1; SET b = newid(); REMOVE c", "a=1 c='x'", want},
		{"SET a = a + 1 SET b = newid() REMOVE c", "a=1 c='x'", want},
		{"set a = a + 1; set b = newid() remove c;", "a=1 c='x'", want},
		{"SET a = 1 SET b = a + 1 SET a = b + 1", "", "set a=long:3; set b=long:2"},
		{"SET a = (b = 1)", "b=1", "set a=bool:True"},
		{"SET a = b", "", "set a=null"},
		{"SET a = NULL", "a=1", "set a=null"},
		{"SET a = blob", "", "set a=null"},
		{"SET a = p('b') + '-' + sys.Label", "b=5", "set a=string:5-orders"},
		{"SET a = 1 REMOVE a", "", ""},
		{"SET a = 1 REMOVE A SET A = 2", "a=0", "remove a; set A=long:2"},
		{"REMOVE a SET a = 2", "a='x'", "set a=long:2"},
		{"SET [odd name] = 1", "", "set odd name=long:1"},
	})
}

// SM-296: SET keeps the spelling of an existing property; REMOVE of an absent one is no error.
func TestSpelling(t *testing.T) {
	t.Parallel()
	runActions(t, []actionCase{
		{"SET Priority = 'high'", "priority='low'", "set priority=string:high"},
		{"SET Priority = 'high'", "", "set Priority=string:high"},
		{"SET Priority = 1 SET PRIORITY = 2", "", "set Priority=long:2"},
		{"REMOVE PRIORITY", "priority='low'", "remove priority"},
		{"REMOVE priority", "", ""},
		{"REMOVE priority", "Priority=1 x=2 priority=2", "remove Priority; remove priority"},
		{"SET priority = 3", "Priority=1 priority=2", "set Priority=long:3"},
	})
}

// semantics.md 15.5: a value is converted to the type that the property has, if that loses nothing.
func TestConversion(t *testing.T) {
	t.Parallel()
	runActions(t, []actionCase{
		{"SET int = 8", "", "set int=int:8"},
		{"SET int = 8.0", "", "set int=int:8"},
		{"SET int = 8.5", "", "set int=double:8.5"},
		{"SET int = '8'", "", "set int=int:8"},
		{"SET int = 'eight'", "", "set int=string:eight"},
		{"SET int = 2147483647", "", "set int=int:2147483647"},
		{"SET int = 2147483648", "", "set int=long:2147483648"},
		{"SET int = dec + 0.01", "", "set int=int:20"},
		{"SET int = dec", "", "set int=decimal:19.99"},
		{"SET int = TRUE", "", "set int=bool:True"},
		{"SET x = 1E300", "x=1", "set x=double:1E+300"},
		{"SET x = 5", "x=1.5", "set x=double:5"},
		{"SET x = '2.5'", "x=1.5", "set x=double:2.5"},
		{"SET x = 5", "x='a'", "set x=string:5"},
		{"SET x = id", "x='a'", "set x=string:00112233-4455-6677-8899-aabbccddeeff"},
		{"SET x = 'TRUE'", "x=FALSE", "set x=bool:True"},
		{"SET x = 'yes'", "x=FALSE", "set x=string:yes"},
		{"SET id = '00112233-4455-6677-8899-AABBCCDDEEFE'", "", "set id=uuid:00112233-4455-6677-8899-aabbccddeefe"},
		{"SET id = '0011'", "", "set id=string:0011"},
		{"SET dec = 5", "", "set dec=decimal:5"},
		{"SET dec = 0.5", "", "set dec=decimal:0.5"},
		{"SET dec = '1.50'", "", "set dec=decimal:1.50"},
		{"SET dec = 1e30", "", "set dec=double:1E+30"},
		{"SET dec = 1e28", "", "set dec=decimal:10000000000000000000000000000"},
		{"SET dec = 1e-29", "", "set dec=double:1E-29"},
		{"SET dec = '1e30'", "", "set dec=string:1e30"},
		{"SET dec = nan", "", "set dec=double:NaN"},
		{"SET start = start + span", "", "set start=timestamp:2024-01-01T00:00:10.0000000Z"},
		{"SET start = 'soon'", "", "set start=string:soon"},
		{"SET nothing = 5", "", "set nothing=long:5"},
		{"SET blob = 5", "", "set blob=long:5"},
		{"SET x = NULL", "x=1", "set x=null"},
	})
}

// SM-401: decimals are written in the form of .NET's type, half to even; later statements see what
// is written.
func TestDecimalsWritten(t *testing.T) {
	t.Parallel()
	runActions(t, []actionCase{
		{"SET old = dec SET dec = dec / 3 SET exact = (dec = old / 3)", "", "set old=decimal:19.99; set dec=decimal:6.6633333333333333333333333333; set exact=bool:False"},
		{"SET dec = -dec / 7", "", "set dec=decimal:-2.8557142857142857142857142857"},
		{"SET dec = dec / huge", "", "set dec=decimal:0.0000000000000000010836600714"},
		{"SET dec = huge * huge", "", "set dec=double:3.402823669209385E+38"},
		{"SET x = huge * 4294967295", "", "set x=decimal:79228162495817593515539431425"},
		{"SET x = huge * 4294967297", "", "set x=double:7.922816253271108E+28"},
		{"SET x = huge / 3 + dec", "", "set x=decimal:6148914691236517224.99"},
		{"SET dec = dec - dec", "", "set dec=decimal:0.00"},
		{"SET sys.Label = dec / 3", "", "sys Label=string:6.663333333333333333333333333333333"},
	})
	for sent, want := range map[string]string{
		"1E3": "1000", "-1.50": "-1.50", "-0.0": "-0.0", "0E40": "0", "-12E-1": "-12E-1", "7E28": "70000000000000000000000000000", "8E28": "double",
		"79228162514264337593543950335": "79228162514264337593543950335", "79228162514264337593543950336": "double", "-1E30": "double",
		"79228162514264337593543950335.5": "double", "79228162514264337593543950335.4": "79228162514264337593543950335",
		"7922816251426433759354395033.55": "7922816251426433759354395034", "7922816251426433759354395033.45": "7922816251426433759354395033.4",
		"0.00000000000000000000000000005": "0.0000000000000000000000000000", "0.00000000000000000000000000015": "0.0000000000000000000000000002",
		"0.000000000000000000000000000050001": "0.0000000000000000000000000001", "1E-128": "0.0000000000000000000000000000", "1.0000000000000000000000000000000": "1.0000000000000000000000000000",
	} {
		got := portable(decimals(sent))
		if got.Type == event.Double && double(got) == double(decimals(sent)) {
			got.Text = "double"
		}
		if got.Text != want {
			t.Errorf("%s is written as %v, want %s", sent, got, want)
		}
	}
}

// semantics.md 15.5: which system properties can be set, and to what.
func TestSetSystem(t *testing.T) {
	t.Parallel()
	runActions(t, []actionCase{
		{"SET sys.Label = 'x'", "", "sys Label=string:x"},
		{"SET sys.subject = 'x'", "", "sys Label=string:x"},
		{"SET sys.Label = sys.Label + '2' SET a = sys.Label", "", "set a=string:orders2; sys Label=string:orders2"},
		{"SET sys.To = 5", "", "sys To=string:5"},
		{"SET sys.MessageId = newid()", "", "sys MessageId=string:00000000-0000-0000-0000-000000000001"},
		{"SET sys.SessionId = NULL", "", "sys SessionId=null"},
		{"REMOVE sys.SessionId", "", "sys SessionId=null"},
		{"REMOVE sys.TimeToLive", "", "sys TimeToLive=null"},
		{"SET sys.TimeToLive = span + span", "", "sys TimeToLive=span:00:00:20"},
		{"SET sys.TimeToLive = 5", "", "error: sys.TimeToLive cannot be set to a number."},
		{"SET sys.TimeToLive = span - span", "", "error: sys.TimeToLive must be set to a positive time span."},
		{"SET sys.ScheduledEnqueueTimeUtc = start", "", "sys ScheduledEnqueueTimeUtc=timestamp:2024-01-01T00:00:00.0000000Z"},
		{"SET sys.ScheduledEnqueueTimeUtc = 'now'", "", "error: sys.ScheduledEnqueueTimeUtc cannot be set to a string."},
		{"SET sys.SequenceNumber = 5", "", "error: sys.SequenceNumber cannot be changed."},
		{"REMOVE sys.LockToken", "", "error: sys.LockToken cannot be changed."},
		{"SET sys.body = 5", "", "error: There is no system property 'body'."},
		{"REMOVE sys.body", "", "error: There is no system property 'body'."},
		{"SET a = sys.body", "", "error: There is no system property 'body'."},
		{"SET a = 1/0", "", "error: An integer is divided by zero."},
		{"SET a = 'x' * 2", "", "error: A string * a number cannot be calculated."},
	})
	settable := 0
	for p := range SystemCount {
		if !strings.Contains(run(t, "SET sys."+p.String()+" = NULL", typed()), "cannot be changed") {
			settable++
		}
	}
	if settable != 11 {
		t.Errorf("%d system properties can be set, want 11", settable)
	}
}

// Limits on the results of an action, at the limit and one above.
func TestActionSizes(t *testing.T) {
	t.Parallel()
	long := func(n int) event.Property { return event.Property{Name: "@x", Value: text(strings.Repeat("ü", n))} }
	for _, target := range []string{"MessageId", "SessionId", "PartitionKey", "ReplyToSessionId"} {
		if got := run(t, "SET sys."+target+" = @x", typed(), long(128)); strings.HasPrefix(got, "error") {
			t.Errorf(`%+v; want !strings.HasPrefix(got, "error")`, got)
		}
		if got := run(t, "SET sys."+target+" = @x", typed(), long(129)); got != "error: sys."+target+" would be longer than 128 characters." {
			t.Errorf("%+v, want %+v", got, "error: sys."+target+" would be longer than 128 characters.")
		}
	}
	for action, want := range map[string]bool{
		"SET a = @x": true, "SET a = @x + ''": true, "SET a = @x + 'x'": false, "SET sys.Label = @x": true, "SET sys.Label = @x + 'x'": false,
		"SET a = @x SET b = @x": false, "SET a = @x SET a = @x": true, "SET a = @x REMOVE a SET b = @x": true, "SET a = @x SET sys.To = @x": false,
	} {
		if got := run(t, action, typed(), long(16<<10)); strings.HasPrefix(got, "error") == want {
			t.Errorf("%s of 32 KiB: %.100s", action, got)
		}
	}
	// The steps of the whole action count.
	m := &Message{User: []event.Property{{Name: "x", Value: text(strings.Repeat("a", 32<<10))}}}
	if got := run(t, strings.Repeat("SET y=(x LIKE '%b')", 19), m); got != "set y=bool:False" {
		t.Errorf(`%+v, want "set y=bool:False"`, got)
	}
	if got := run(t, strings.Repeat("SET y=(x LIKE '%b')", 20), m); !strings.Contains(got, "10000 steps") {
		t.Errorf(`%+v; want strings.Contains(got, "10000 steps")`, got)
	}
}

// A Changes is reused for another message and rule, and keeps nothing of the last one.
func TestChangesReuse(t *testing.T) {
	t.Parallel()
	var c Changes
	first := compiledAction(t, "SET a = 1 SET sys.Label = 'x' REMOVE id", nil)
	second := compiledAction(t, "SET b = 2", nil)
	for range 2 {
		if err := first.Run(typed(), ids(), &c); err != nil || describe(&c) != "set a=long:1; remove id; sys Label=string:x" {
			t.Errorf(`%s, %v; want describe(&c) == "set a=long:1; remove id; sys Label=string:x"`, describe(&c), err)
		}
		if v, changed := c.System(Label); v.Text != "x" || !changed {
			t.Errorf(`%+v, %v; want v.Text == "x" && changed`, v, changed)
		}
		if err := second.Run(typed(), ids(), &c); err != nil || describe(&c) != "set b=long:2" {
			t.Errorf(`%s, %v; want describe(&c) == "set b=long:2"`, describe(&c), err)
		}
		if v, changed := c.System(Label); v.Text != "orders" || changed {
			t.Errorf(`%+v, %v; want v.Text == "orders" && !changed`, v, changed)
		}
	}
	c.Reset()
	if describe(&c) != "" {
		t.Errorf(`%+v, want ""`, describe(&c))
	}
}
