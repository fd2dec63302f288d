package filter

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-355: refused texts, the character of the error, and its reason.
func TestRefusedFilters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter   string
		position int
		reason   string
	}{
		{"", 1, "expected a value, found the end"},
		{"   ", 4, "expected a value"},
		{"1", 1, "a number is not a condition"},
		{"'a'", 1, "a string is not a condition"},
		{"a AND 1", 7, "a number is not a condition"},
		{"NOT 'x'", 5, "a string is not a condition"},
		{"a + 1", 3, "a calculation is not a condition"},
		{"1 + 1", 3, "a calculation is not a condition"},
		{"-a OR b", 1, "a calculation is not a condition"},
		{"newid()", 1, "newid() is not a condition"},
		{"a = ", 5, "expected a value"},
		{"a = 1 b", 7, "unexpected b"},
		{"a = b = c", 7, "unexpected ="},
		{"NOT NOT a", 5, "expected a value, found NOT"},
		{"--a = 1", 2, "expected a value, found -"},
		{"set = 1", 1, "expected a value, found SET"},
		{"user.in = 1", 6, "IN is a keyword"},
		{"EXISTS(like)", 8, "LIKE is a keyword"},
		{"EXISTS(1)", 8, "expected the name of a property, found 1"},
		{"EXISTS(p('x'))", 9, "expected )"},
		{"EXISTS a", 8, "expected (, found a"},
		{"_a = 1", 1, "unexpected '_'"},
		{"a = 9223372036854775808", 5, "more than 64 bits"},
		{"a = 1E400", 5, "out of range"},
		{"a = 1E", 5, "no digits"},
		{"a = 12ab", 7, "a letter follows a number"},
		{"a = 1.2.3", 8, "unexpected .3"},
		{"a = 'b", 5, "missing closing '"},
		{"[a = 1", 1, "missing closing ]"},
		{`"a = 1`, 1, `missing closing "`},
		{"[] = 1", 1, "empty name"},
		{"a = @", 5, "missing parameter name"},
		{"a = @x", 5, "the parameter @x has no value"},
		{"foo.a = 1", 1, "foo is neither sys nor user"},
		{"[sys].Label = 1", 6, "unexpected ."},
		{"sys. = 1", 6, "expected the name of a property, found ="},
		{"foo(1) = 1", 1, "foo is not a function"},
		{"newid(1) = 1", 7, "expected ), found 1"},
		{"p() = 1", 3, "expected a value, found )"},
		{"a IN ()", 7, "expected a value"},
		{"a IN (1", 8, "expected ), found the end"},
		{"a NOT = 1", 7, "expected IN or LIKE, found ="},
		{"a IS 1", 6, "expected NULL"},
		{"1 IS NULL", 3, "applies only to a property"},
		{"a + 1 IS NOT NULL", 7, "applies only to a property"},
		{"(a", 3, "expected )"},
		{"a)", 2, "unexpected )"},
		{"a & b", 3, "unexpected '&'"},
		{"größe = ü AND #", 15, "unexpected '#'"},
		{"a = 1;", 6, "unexpected ;"},
		{"a \xff", 0, "not valid UTF-8"},
	} {
		refused(t, sqlRule("r", c.filter, ""), c.position, c.reason)
	}
}

func TestRefusedActions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action   string
		position int
		reason   string
	}{
		{" ", 2, "expected SET or REMOVE, found the end"},
		{";", 1, "expected SET or REMOVE, found ;"},
		{"SET a = 1;;", 11, "expected SET or REMOVE"},
		{"a = 1", 1, "expected SET or REMOVE, found a"},
		{"SET a", 6, "expected ="},
		{"SET a = b = 1", 11, "expected SET or REMOVE, found ="},
		{"SET 1 = 1", 5, "expected the name of a property"},
		{"SET a = @x", 9, "the parameter @x has no value"},
		{"SET a = (1 AND b)", 10, "a number is not a condition"},
		{"REMOVE", 7, "expected the name of a property, found the end"},
		{"REMOVE newid()", 13, "expected SET or REMOVE, found ("},
	} {
		refused(t, sqlRule("r", "1=1", c.action), c.position, c.reason)
	}
	r := sqlRule("r", "1=1", "SET a = 1 x")
	if err := Check(&r); err == nil || err.Error() != "action: character 11: expected SET or REMOVE, found x" {
		t.Errorf(`%+v; want err != nil && err.Error() == "action: character 11: expected SET or REMOVE, found x"`, err)
	}
}

// Limits of semantics.md 15.4 and 15.5, at the limit and one above.
func TestLimits(t *testing.T) {
	t.Parallel()
	accepted := func(r event.Rule) {
		t.Helper()
		if err := Check(&r); err != nil {
			t.Error(err)
		}
	}
	filter := "a = '" + strings.Repeat("ü", 1018) + "'"
	accepted(sqlRule("r", filter, ""))
	refused(t, sqlRule("r", filter+" ", ""), 1025, "longer than 1024 characters")
	action := "SET a='" + strings.Repeat("ü", 1016) + "'"
	accepted(sqlRule("r", "1=1", action))
	refused(t, sqlRule("r", "1=1", action+";"), 1025, "longer than 1024 characters")

	action = strings.Repeat("SET a = 1 ", 32)
	accepted(sqlRule("r", "1=1", action))
	refused(t, sqlRule("r", "1=1", action+"REMOVE a"), 321, "more than 32 statements")

	nested := func(n int) string { return strings.Repeat("(", n) + "a" + strings.Repeat(")", n) }
	accepted(sqlRule("r", nested(100), ""))
	refused(t, sqlRule("r", nested(101), ""), 101, "nested more than 100 deep")
	calls := func(n int) string { return strings.Repeat("p(", n) + "a" + strings.Repeat(")", n) }
	accepted(sqlRule("r", calls(100), ""))
	refused(t, sqlRule("r", calls(101), ""), 201, "nested more than 100 deep")
	// parentheses next to each other are not nested
	accepted(sqlRule("r", strings.Repeat("(a) AND ", 120)+"b", ""))

	accepted(sqlRule("r", "a = 9223372036854775807", ""))
}

// SM-288: a correlation filter without a condition, or with an impossible one, is refused.
func TestRefusedCorrelation(t *testing.T) {
	t.Parallel()
	rule := func(f event.Filter) event.Rule {
		f.Kind = event.CorrelationFilter
		return event.Rule{Name: "r", Filter: f}
	}
	refused(t, rule(event.Filter{}), 0, "at least one condition")
	refused(t, rule(event.Filter{Conditions: []event.Condition{{Field: 9}}}), 0, "a field that correlation filters do not have")
	refused(t, rule(event.Filter{Conditions: []event.Condition{{}}}), 0, "a field that correlation filters do not have")
	refused(t, rule(event.Filter{Properties: []event.Property{{Name: "a"}}}), 0, "no simple value")
	refused(t, event.Rule{Name: "r"}, 0, "unknown kind")
	r := rule(event.Filter{Conditions: []event.Condition{{Field: event.FieldLabel}}})
	if err := Check(&r); err != nil {
		t.Error(err)
	}
	var e *Error
	r = event.Rule{}
	if err := Check(&r); !errors.As(err, &e) || err.Error() != "filter: unknown kind" {
		t.Errorf(`%+v; want errors.As(err, &e) && err.Error() == "filter: unknown kind"`, err)
	}
}

// The printed text is the same filter; parentheses are where they are needed.
func TestPrint(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"((a))=(1)":                      "a = 1",
		"a and(b or c)and not d":         "a AND (b OR c) AND NOT d",
		"a AND (b AND c)":                "a AND (b AND c)",
		"not(not a)":                     "NOT (NOT a)",
		"a-(b-c)-d*(e+f)/2=0":            "a - (b - c) - d * (e + f) / 2 = 0",
		"-(-a)=+1.5":                     "-(-a) = +1.5E+00",
		"(a=1)=TRUE":                     "(a = 1) = TRUE",
		"[a b] != \"c\"":                 "[a b] <> c",
		"[and] = 'it''s' or [x]]y] = @p": "[and] = 'it''s' OR [x]]y] = @p",
		"USER.a in(1,2) or Sys.label NOT LIKE 'x'":  "a IN (1, 2) OR sys.label NOT LIKE 'x'",
		"x like y+'%' escape '!' and z is not null": "x LIKE y + '%' ESCAPE '!' AND z IS NOT NULL",
		"exists(a) and P(b)=NewID()":                "EXISTS(a) AND property(b) = newid()",
	} {
		e, err := parseFilter(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := e.String(); got != want {
			t.Errorf("%s is printed %s, want %s", in, got, want)
		}
	}
}
