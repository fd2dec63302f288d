package filter

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-355: texts that are refused, the character at which, and why.
func TestRefusedFilters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter   string
		position int
		reason   string
	}{
		{"", 1, "a value is expected, not the end"},
		{"   ", 4, "a value is expected"},
		{"1", 1, "a number is no condition"},
		{"'a'", 1, "a string is no condition"},
		{"a AND 1", 7, "a number is no condition"},
		{"NOT 'x'", 5, "a string is no condition"},
		{"a + 1", 3, "a calculation is no condition"},
		{"1 + 1", 3, "a calculation is no condition"},
		{"-a OR b", 1, "a calculation is no condition"},
		{"newid()", 1, "newid() is no condition"},
		{"a = ", 5, "a value is expected"},
		{"a = 1 b", 7, "b is not expected here"},
		{"a = b = c", 7, "= is not expected here"},
		{"NOT NOT a", 5, "a value is expected, not NOT"},
		{"--a = 1", 2, "a value is expected, not -"},
		{"set = 1", 1, "a value is expected, not SET"},
		{"user.in = 1", 6, "IN is a keyword"},
		{"EXISTS(like)", 8, "LIKE is a keyword"},
		{"EXISTS(1)", 8, "the name of a property is expected, not 1"},
		{"EXISTS(p('x'))", 9, ") is expected"},
		{"EXISTS a", 8, "( is expected, not a"},
		{"_a = 1", 1, "'_' is not expected here"},
		{"a = 9223372036854775808", 5, "more than 64 bits"},
		{"a = 1E400", 5, "out of range"},
		{"a = 1E", 5, "no digits"},
		{"a = 12ab", 7, "ends in a letter"},
		{"a = 1.2.3", 8, ".3 is not expected here"},
		{"a = 'b", 5, "no closing '"},
		{"[a = 1", 1, "no closing ]"},
		{`"a = 1`, 1, `no closing "`},
		{"[] = 1", 1, "a name is empty"},
		{"a = @", 5, "@ without a name"},
		{"a = @x", 5, "the parameter @x has no value"},
		{"foo.a = 1", 1, "foo is neither sys nor user"},
		{"[sys].Label = 1", 6, ". is not expected here"},
		{"sys. = 1", 6, "the name of a property is expected, not ="},
		{"foo(1) = 1", 1, "foo is not a function"},
		{"newid(1) = 1", 7, ") is expected, not 1"},
		{"p() = 1", 3, "a value is expected, not )"},
		{"a IN ()", 7, "a value is expected"},
		{"a IN (1", 8, ") is expected, not the end"},
		{"a NOT = 1", 7, "IN or LIKE is expected, not ="},
		{"a IS 1", 6, "NULL is expected"},
		{"1 IS NULL", 3, "can only ask about a property"},
		{"a + 1 IS NOT NULL", 7, "can only ask about a property"},
		{"(a", 3, ") is expected"},
		{"a)", 2, ") is not expected here"},
		{"a & b", 3, "'&' is not expected here"},
		{"größe = ü AND #", 15, "'#' is not expected here"},
		{"a = 1;", 6, "; is not expected here"},
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
		{" ", 2, "SET or REMOVE is expected, not the end"},
		{";", 1, "SET or REMOVE is expected, not ;"},
		{"SET a = 1;;", 11, "SET or REMOVE is expected"},
		{"a = 1", 1, "SET or REMOVE is expected, not a"},
		{"SET a", 6, "= is expected"},
		{"SET a = b = 1", 11, "SET or REMOVE is expected, not ="},
		{"SET 1 = 1", 5, "the name of a property is expected"},
		{"SET a = @x", 9, "the parameter @x has no value"},
		{"SET a = (1 AND b)", 10, "a number is no condition"},
		{"REMOVE", 7, "the name of a property is expected, not the end"},
		{"REMOVE newid()", 13, "SET or REMOVE is expected, not ("},
	} {
		refused(t, sqlRule("r", "1=1", c.action), c.position, c.reason)
	}
	r := sqlRule("r", "1=1", "SET a = 1 x")
	if err := Check(&r); err == nil || err.Error() != "action: character 11: SET or REMOVE is expected, not x" {
		t.Errorf(`%+v; want err != nil && err.Error() == "action: character 11: SET or REMOVE is expected, not x"`, err)
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
	refused(t, sqlRule("r", nested(101), ""), 101, "more than 100 parentheses")
	calls := func(n int) string { return strings.Repeat("p(", n) + "a" + strings.Repeat(")", n) }
	accepted(sqlRule("r", calls(100), ""))
	refused(t, sqlRule("r", calls(101), ""), 201, "more than 100 parentheses")
	// beside each other is not within each other
	accepted(sqlRule("r", strings.Repeat("(a) AND ", 120)+"b", ""))

	accepted(sqlRule("r", "a = 9223372036854775807", ""))
}

// SM-288: a correlation filter without a condition, or with one that cannot be, is refused.
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
	refused(t, event.Rule{Name: "r"}, 0, "its kind is unknown")
	r := rule(event.Filter{Conditions: []event.Condition{{Field: event.FieldLabel}}})
	if err := Check(&r); err != nil {
		t.Error(err)
	}
	var e *Error
	r = event.Rule{}
	if err := Check(&r); !errors.As(err, &e) || err.Error() != "filter: its kind is unknown" {
		t.Errorf(`%+v; want errors.As(err, &e) && err.Error() == "filter: its kind is unknown"`, err)
	}
}

// What is printed is the same filter; parentheses stand where they are needed.
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
