package filter

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-340: a property matches its value only; an absent one matches nothing, also under NOT.
func TestAbsentMatchesNothing(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"color = 'blue'", "color='blue'", "T"},
		{"COLOR = 'blue'", "color='blue'", "T"},
		{"user.color = 'blue'", "Color='blue'", "T"},
		{"color = 'blue'", "color='Blue'", "F"},
		{"color = 'blue'", "", "U"},
		{"NOT color = 'blue'", "", "U"},
		{"color <> 'blue'", "", "U"},
		{"color = 'blue'", "color=NULL", "U"},
		{"color = color", "", "U"},
		{"color = 'blue'", "Color='red' color='blue'", "F"}, // of two spellings the first counts
		{"blob = 'x'", "", "U"},
		{"color + 1 = 2", "", "U"},
		{"-color = 2", "", "U"},
		{"flag", "flag=TRUE", "T"},
		{"NOT flag", "flag=FALSE", "T"},
		{"flag", "", "U"},
		{"flag", "flag='x'", "A condition must be a boolean, not a string."},
		{"NULL", "", "U"},
	})
}

// SM-341: IS NULL is true for an absent, null or invisible property.
func TestIsNull(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"x IS NULL", "", "T"},
		{"x IS NOT NULL", "", "F"},
		{"x IS NULL", "x=1", "F"},
		{"x is not null", "x=1", "T"},
		{"x IS NULL", "x=NULL", "T"},
		{"NOT x IS NULL", "x=1", "T"},
		{"sys.To IS NULL", "", "T"},
		{"sys.Label IS NULL", "", "F"},
		{"p('x') IS NULL", "", "T"},
		{"blob IS NULL", "", "T"},
	})
}

// SM-342: EXISTS is true if the key exists, whatever its value.
func TestExists(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"EXISTS(x)", "", "F"},
		{"exists ( user.X )", "x=1", "T"},
		{"EXISTS(x)", "x=NULL", "T"},
		{"EXISTS(blob)", "", "T"},
		{"NOT EXISTS(x)", "", "T"},
		{"EXISTS(sys.Label)", "", "T"},
		{"EXISTS(sys.To)", "", "F"},
		{"EXISTS(sys.Nonsense)", "", "no system property"},
	})
}

// SM-343: the tables of three-valued logic.
func TestThreeValues(t *testing.T) {
	t.Parallel()
	const order = "FUT"
	and := [...]string{"FFF", "FUU", "FUT"}
	or := [...]string{"FUT", "UUT", "TTT"}
	words := [...]string{"f", "absent", "t"}
	for i, a := range words {
		for j, b := range words {
			runFilters(t, []filterCase{
				{a + " AND " + b, "f=FALSE t=TRUE", and[i][j : j+1]},
				{a + " OR " + b, "f=FALSE t=TRUE", or[i][j : j+1]},
			})
		}
		runFilters(t, []filterCase{{"NOT " + a, "f=FALSE t=TRUE", order[2-i : 3-i]}})
	}
	// The right side is not evaluated if the left decides.
	runFilters(t, []filterCase{
		{"f AND 1/zero = 1", "f=FALSE zero=0", "F"},
		{"1/zero = 1 AND f", "f=FALSE zero=0", "divided by zero"},
		{"t OR 1/zero = 1", "t=TRUE zero=0", "T"},
		{"absent AND 1/zero = 1", "zero=0", "divided by zero"},
	})
}

// SM-344: NOT before AND before OR; * before +; parentheses override.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"TRUE OR FALSE AND FALSE", "", "T"},
		{"(TRUE OR FALSE) AND FALSE", "", "F"},
		{"NOT FALSE AND FALSE", "", "F"},
		{"NOT (FALSE AND FALSE)", "", "T"},
		{"NOT a = 1", "a=2", "T"},
		{"a + 2 * 3 = 7", "a=1", "T"},
		{"(a + 2) * 3 = 9", "a=1", "T"},
		{"a - 2 - 3 = -4", "a=1", "T"},
		{"a - (2 - 3) = 2", "a=1", "T"},
		{"-a * 2 = -2", "a=1", "T"},
		{"a = -1", "a=-1", "T"},
		{"3 - -1 = a", "a=4", "T"},
		{"a - 1 = 0 OR b > 1 AND b < 3", "a=5 b=2", "T"},
		{"(a = 1) = TRUE", "a=1", "T"},
	})
}

// SM-345: IN and NOT IN, with members of any kind.
func TestIn(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"x IN (1, 'a', TRUE, 2.5)", "x='a'", "T"},
		{"x IN (1, 'a', TRUE, 2.5)", "x=2.5", "T"},
		{"x IN (1, 'a', TRUE, 2.5)", "x=TRUE", "T"},
		{"x IN (1, 'a', TRUE, 2.5)", "x='1'", "F"},
		{"x NOT IN (1, 'a')", "x='1'", "T"},
		{"x NOT IN (1, 'a')", "x=1.0", "F"},
		{"x IN (1)", "", "U"},
		{"x NOT IN (1)", "", "U"},
		{"x IN (y, 2)", "x=2", "T"},
		{"x NOT IN (y, 2)", "x=3", "T"}, // an absent property equals nothing
		{"x IN (NULL)", "x=3", "F"},
		{"x IN (y + 1, z)", "x=3 y=2", "T"},
		{"id IN (id)", "", "T"},
		{"x IN (1/zero)", "x=3 zero=0", "divided by zero"},
	})
}

// SM-346: LIKE with %, _ and ESCAPE; the pattern may be any expression.
func TestLike(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"x LIKE 'a%'", "x='abc'", "T"},
		{"x LIKE 'a%'", "x='Abc'", "F"},
		{"x LIKE '%c'", "x='abc'", "T"},
		{"x LIKE '%b%'", "x='abc'", "T"},
		{"x LIKE 'a_c'", "x='abc'", "T"},
		{"x LIKE 'a_c'", "x='ac'", "F"},
		{"x LIKE '_'", "x='ü'", "T"},
		{"x LIKE '__'", "x='ü'", "F"},
		{"x LIKE '%'", "x=''", "T"},
		{"x LIKE ''", "x=''", "T"},
		{"x LIKE ''", "x='a'", "F"},
		{"x LIKE '%a_b%c'", "x='xxaab-abbc'", "T"},
		{"x NOT LIKE 'a%'", "x='b'", "T"},
		{"x LIKE '100!%' ESCAPE '!'", "x='100%'", "T"},
		{"x LIKE '100!%' ESCAPE '!'", "x='1000'", "F"},
		{"x LIKE 'a!_%' ESCAPE '!'", "x='a_b'", "T"},
		{"x LIKE '!!%' ESCAPE '!'", "x='!x'", "T"},
		{"x LIKE '!a' ESCAPE '!'", "x='!a'", "T"},
		{"x LIKE '%%' ESCAPE '%'", "x='%'", "T"},
		{"x LIKE y + '%'", "x='abc' y='ab'", "T"},
		{"x LIKE y ESCAPE z", "x='a%' y='a~%' z='~'", "T"},
		{"x LIKE y", "x='a'", "U"},
		{"x NOT LIKE 'a'", "", "U"},
		{"x LIKE 'a' ESCAPE y", "x='a'", "U"},
		{"x LIKE 5", "", "U"},
		{"x LIKE 5", "x='5'", "strings"},
		{"x LIKE '5'", "x=5", "strings"},
		{"x LIKE '5' ESCAPE 5", "x='5'", "strings"},
		{"x LIKE '5' ESCAPE ''", "x='5'", "one character"},
		{"x LIKE '5' ESCAPE 'ab'", "x='5'", "one character"},
		{"id LIKE '%'", "", "strings"},
	})
}

// SM-347: numbers are compared by value, whatever their width; other kinds are different.
func TestNumbers(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"x = 1", "x=1.0", "T"},
		{"1 = 1.0", "", "T"},
		{"int = 7", "", "T"},
		{"int = 7E0", "", "T"},
		{"'1' = 1", "", "F"},
		{"'1' <> 1", "", "T"},
		{"x = 1", "x='1'", "F"},
		{"x = 9007199254740993", "x=9007199254740992.0", "F"},
		{"9223372036854775807 < 9.3E18", "", "T"},
		{"x > -9.3E18", "x=1", "T"},
		{"1 < 1.5", "", "T"},
		{"1.5 > 1", "", "T"},
		{"-1 > -1.5", "", "T"},
		{"nan = nan", "", "F"},
		{"nan <> nan", "", "T"},
		{"nan < 1", "", "F"},
		{"1 >= nan", "", "F"},
		{"dec = 19.99", "", "T"},
		{"dec > 19", "", "T"},
		{"dec + 1 = 20.99", "", "T"},
		{"dec * 2 = 39.98", "", "T"},
		{"dec - 20 < 0", "", "T"},
		{"dec % 2 = 1.99", "", "T"},
		{"dec / 0 = 1", "", "divides by zero"},
		{"-dec = -19.99", "", "T"},
		{"dec + '' = '19.99'", "", "T"},
		{"huge > 9223372036854775807", "", "T"},
		{"huge - 9223372036854775807 - 9223372036854775807 = 1", "", "T"},
		{"1 + 0.5 = 1.5", "", "T"},
		{"7.5 % 2 = 1.5", "", "T"},
		{"9223372036854775807 + 1 < 0", "", "T"},
	})
}

// semantics.md 15.4: operands of different families have no order and no arithmetic.
func TestFamilies(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"'a' < 'b'", "", "T"},
		{"'B' < 'a'", "", "T"},
		{"'a' > 1", "", "A string and a number cannot be ordered."},
		{"TRUE > FALSE", "", "cannot be ordered"},
		{"TRUE = TRUE", "", "T"},
		{"TRUE <> FALSE", "", "T"},
		{"TRUE = 1", "", "F"},
		{"id = id", "", "T"},
		{"id = newid()", "", "F"},
		{"id < id", "", "cannot be ordered"},
		{"id = '00112233-4455-6677-8899-aabbccddeeff'", "", "F"},
		{"'a' - 1 = 1", "", "A string - a number cannot be calculated."},
		{"-'a' = 1", "", "sign cannot be applied"},
		{"TRUE + 1 = 1", "", "cannot be calculated"},
		{"start < end", "", "T"},
		{"start = sys.EnqueuedTimeUtc", "", "T"},
		{"end - start = span", "", "T"},
		{"start + span = end", "", "T"},
		{"span + start = end", "", "T"},
		{"end - span = start", "", "T"},
		{"span - start = span", "", "cannot be calculated"},
		{"start + start = end", "", "cannot be calculated"},
		{"span * 2 = span", "", "cannot be calculated"},
		{"span + span > span", "", "T"},
		{"-span < span", "", "T"},
		{"-start < end", "", "sign cannot be applied"},
		{"span = sys.TimeToLive", "", "T"},
		{"start > 1", "", "cannot be ordered"},
		{"start - (start - end) - (start - end) > end", "", "T"},
		{"start - span * 1 = start", "", "cannot be calculated"},
	})
}

// semantics.md 15.4: + joins texts when one side is a string or a uuid.
func TestConcatenation(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"'a' + 'b' = 'ab'", "", "T"},
		{"'a' + 1 = 'a1'", "", "T"},
		{"1 + 'a' = '1a'", "", "T"},
		{"x + 'a' = '1.5a'", "x=1.5", "T"},
		{"'' + x = '1'", "x=1.0", "T"},
		{"'' + x = '1E+15'", "x=1E15", "T"},
		{"'' + x = '1E-05'", "x=0.00001", "T"},
		{"'' + nan = 'NaN'", "", "T"},
		{"'' + TRUE = 'True'", "", "T"},
		{"'' + id = '00112233-4455-6677-8899-aabbccddeeff'", "", "T"},
		{"id + id = '00112233-4455-6677-8899-aabbccddeeff00112233-4455-6677-8899-aabbccddeeff'", "", "T"},
		{"'' + newid() = '00000000-0000-0000-0000-000000000001'", "", "T"},
		{"'' + start = '2024-01-01T00:00:00.0000000Z'", "", "T"},
		{"'' + span = '00:00:10'", "", "T"},
		{"'' + (start - end - span) = '-00:00:20'", "", "T"},
		{"'a' + absent = 'a'", "", "U"},
	})
}

// SM-348: sys names system properties, in any case.
func TestSystemProperties(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"sys.Label = 'orders'", "", "T"},
		{"SYS.LABEL = 'orders'", "", "T"},
		{"sys.Subject = 'orders'", "", "T"},
		{"sys.[Label] = 'orders'", "", "T"},
		{"sys . MessageId = 'm-1'", "", "T"},
		{"sys.DeliveryCount < 1", "", "T"},
		{"sys.To = 'x'", "", "U"},
		{"Label = 'orders'", "", "U"},
		{"user.sys = 1", "sys=1", "T"},
		{"sys = 1", "sys=1", "T"},
	})
	for p := range SystemCount {
		m := &Message{}
		m.System[p] = text("x")
		if got := result(t, "sys."+strings.ToLower(p.String())+" = 'x'", m); got != "T" {
			t.Errorf("sys.%s is %s", p, got)
		}
	}
}

// SM-349: an unknown system property is accepted at creation and an error at evaluation.
func TestUnknownSystemProperty(t *testing.T) {
	t.Parallel()
	r := sqlRule("r", "sys.NoSuchProp = 1", "SET sys.body = 1")
	if err := Check(&r); err != nil {
		t.Error(err)
	}
	runFilters(t, []filterCase{
		{"sys.NoSuchProp = 1", "", "There is no system property 'NoSuchProp'."},
		{"sys.NoSuchProp IS NULL", "", "no system property"},
		{"FALSE AND sys.NoSuchProp = 1", "", "F"},
	})
}

// SM-350: names in brackets and double quotes.
func TestQuotedNames(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"[a b] = 1", "[a b]=1", "T"},
		{`"a b" = 1`, "[A B]=1", "T"},
		{"[a]]b] = 1", `"a]b"=1`, "T"},
		{`"a""b" = 1`, `[a"b]=1`, "T"},
		{"[select] = 1 AND [and] = 2", "[SELECT]=1 [AND]=2", "T"},
		{"user.[x.y] = 1", "[x.y]=1", "T"},
		{"größe_1 = 1", "GRÖßE_1=1", "T"},
		{"[\u212Aey] = 1", "key=1", "T"}, // the Kelvin sign is a k without regard to case
	})
}

// SM-351: a quote inside a string is doubled.
func TestStringQuote(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"'it''s' = x", "x='it''s'", "T"},
		{"'''' + 'a' = '''a'", "", "T"},
		{"x = ''", "x=''", "T"},
	})
}

// SM-352: a parameter has the value and type that the rule gives it.
func TestParameters(t *testing.T) {
	t.Parallel()
	params := []event.Property{
		{Name: "@min", Value: whole(5)}, {Name: "name", Value: text("blue")}, {Name: "@since", Value: newYear},
		{Name: "@wait", Value: tenSeconds}, {Name: "@none"}, {Name: "@X", Value: whole(1)}, {Name: "@x", Value: whole(2)},
	}
	for _, c := range []filterCase{
		{"n >= @min", "n=5", "T"},
		{"n >= @MIN", "n=4.5", "F"},
		{"n = @min", "n='5'", "F"},
		{"color = @name", "color='blue'", "T"},
		{"start = @since AND end - @wait = @since", "", "T"},
		{"n = @none", "n=1", "U"},
		{"@x = 2 AND @X = 1", "", "T"},
	} {
		if got := result(t, c.filter, message(t, c.properties), params...); got != c.want {
			t.Errorf("%s with {%s} is %s, want %s", c.filter, c.properties, got, c.want)
		}
	}
	r := sqlRule("r", "n = @max", "")
	r.Filter.Parameters = params
	refused(t, r, 5, "the parameter @max has no value")
	r = sqlRule("r", "n = @x", "")
	r.Filter.Parameters = []event.Property{{Name: "@x", Value: event.Value{Type: Opaque}}}
	refused(t, r, 0, "no simple value")
}

// SM-353: property('x') and p('x') are x.
func TestPropertyFunction(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"property('x') = 1", "X=1", "T"},
		{"P ( 'x' ) = x", "x=1", "T"},
		{"p('a' + ' ' + 'b') = 1", "[a b]=1", "T"},
		{"p(y) = 1", "x=1 y='x'", "T"},
		{"p(y) = 1", "x=1", "U"},
		{"p('absent') = 1", "", "U"},
		{"p(1) = 1", "", "takes a string"},
		{"p('flag')", "flag=TRUE", "T"},
		{"p = 1 AND property = 2 AND newid = 3", "p=1 property=2 newid=3", "T"},
	})
}

// SM-354: true and false filters as texts.
func TestConstantFilters(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{{"1=1", "", "T"}, {"1=0", "", "F"}, {"TRUE", "", "T"}, {"false", "", "F"}})
	s := NewSet()
	for i, text := range []string{"1=1", "1=0", "1 = 1 AND 'a' LIKE 'a'", "NULL"} {
		if err := s.Put(event.EntityID(i+1), sqlRule("$Default", text, "")); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.always) != 2 || len(s.programs) != 0 {
		t.Errorf("%d filters are known to be true and %d are evaluated", len(s.always), len(s.programs))
	}
	got := s.Match(&Message{}, nil)
	if len(got) != 2 || got[0].Subscription != 1 || got[1].Subscription != 3 || !got[0].Plain {
		t.Errorf("%+v; want len(got) == 2 && got[0].Subscription == 1 && got[1].Subscription == 3 && got[0].Plain", got)
	}
}

// SM-356: integers are divided towards zero, and not by zero.
func TestDivision(t *testing.T) {
	t.Parallel()
	runFilters(t, []filterCase{
		{"x / 2 = 3", "x=7", "T"},
		{"x / 2 = -3", "x=-7", "T"},
		{"x % 2 = -1", "x=-7", "T"},
		{"x / 2.0 = 3.5", "x=7", "T"},
		{"x / 0 = 1", "x=7", "An integer is divided by zero."},
		{"x % 0 = 1", "x=7", "divided by zero"},
		{"1 / 0 = 1", "", "divided by zero"},
		{"x / 0 = 1", "", "U"},
		{"x / 0.0 > 1E300", "x=7", "T"},
		{"x / -1 = x", "x=-9223372036854775807", "F"},
	})
	least := &Message{User: []event.Property{{Name: "x", Value: longValue(-1 << 63)}}}
	if got := result(t, "x / -1 = x AND x % -1 = 0", least); got != "T" {
		t.Errorf("the least integer divided by -1: %s", got)
	}
}

// reliability.md T4: at most 10,000 steps. LIKE takes a step for 64 characters of a text of 32 KiB:
// 512 a time.
func TestStepBound(t *testing.T) {
	t.Parallel()
	m := &Message{User: []event.Property{{Name: "x", Value: text(strings.Repeat("a", 32<<10))}}}
	for n, want := range map[int]string{19: "F", 20: "error: The evaluation takes more than 10000 steps."} {
		filter := strings.Repeat("x LIKE '%b' OR ", n-1) + "x LIKE '%b'"
		if got := result(t, filter, m); got != want {
			t.Errorf("%d times LIKE: %s", n, got)
		}
	}
	if got := result(t, "x + x LIKE '%' AND x + x + x LIKE '%'", m); !strings.Contains(got, "longer than") {
		t.Errorf("96 KiB of text: %s", got)
	}
	m.User = append(m.User, event.Property{Name: "y", Value: text(strings.Repeat("_a", 16<<10) + "%b")})
	if got := result(t, "x LIKE y", m); !strings.Contains(got, "steps") {
		t.Errorf("a pattern of 32 KiB: %s", got)
	}
}

// Every step is counted once, and the count is exact at the limit.
func TestStepsExact(t *testing.T) {
	t.Parallel()
	p, err := compileFilter("x = 1 AND y = 2", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, steps := range []int{7, 6} {
		var m machine
		m.begin(message(t, "x=1 y=2"), nil)
		m.steps = steps
		if got := m.condition(p, p.root); (m.err == nil) != (steps == 7) || m.err == nil && got != yes {
			t.Errorf("%d steps: %v, %v", steps, got, m.err)
		}
	}
}

// semantics.md 15.4: time spans as text.
func TestSpanText(t *testing.T) {
	t.Parallel()
	for ticks, want := range map[int64]string{
		0: "00:00:00", -1: "-00:00:00.0000001", 86400 * event.TicksPerSecond: "1.00:00:00", -1 << 63: "-10675199.02:48:05.4775808",
		36_000_000_000 + 5: "01:00:00.0000005",
	} {
		if got := string(appendSpan(nil, ticks)); got != want {
			t.Errorf("a span of %d ticks is written %s, want %s", ticks, got, want)
		}
	}
}
