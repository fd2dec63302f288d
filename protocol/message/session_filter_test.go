package message

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// 4.2: the session filter in all its forms, and the refusal of invalid and unknown filters.
func TestReadFilters(t *testing.T) {
	t.Parallel()
	described := func(descriptor, v any) amqp.Described { return amqp.Described{Descriptor: descriptor, Value: v} }
	one := func(key string, v any) amqp.Map { return amqp.Map{{Key: amqp.Symbol(key), Value: v}} }
	for _, c := range []struct {
		name    string
		filters amqp.Map
		want    string // the id, "*": any, "": no filter, with a space: the text of the refusal
	}{
		{"none", nil, ""},
		{"by id", one(keySessionFilter, "a"), "a"},
		{"a symbol", one(keySessionFilter, amqp.Symbol("a")), "a"},
		{"a binary", one(keySessionFilter, []byte("a")), "a"},
		{"the next", one(keySessionFilter, nil), "*"},
		{"described by name", one("x", described(amqp.Symbol(keySessionFilter+":string"), "a")), "a"},
		{"described by number", one("x", described(uint64(0x137000000C), nil)), "*"},
		{"no text", one(keySessionFilter, int32(1)), "The value of the filter"},
		{"no UTF-8", one(keySessionFilter, []byte{0xff}), "The value of the filter"},
		{"too long", one(keySessionFilter, strings.Repeat("ü", 129)), "The session id is longer than 128 characters."},
		{"twice", append(one(keySessionFilter, "a"), one(keySessionFilter, "b")...), "There is more than one filter"},
		{"another one that is null", one("x", nil), ""},
		{"another one", one("x", "a"), "The filter 'x' is not implemented."},
		{"another one, described", one("x", described(uint64(0x468C00000004), "a")), "The filter 'x' (apache.org:selector-filter:string) is not implemented."},
		{"not known by number", one("x", described(uint64(10), "a")), "The filter 'x' (descriptor 0xa) is not implemented."},
		{"a long name", one(strings.Repeat("x", 300), "a"), "The filter '" + strings.Repeat("x", 256) + "' is"},
	} {
		f, e := ReadFilters(c.filters, true, 128)
		got := ""
		switch {
		case e != nil:
			got = e.Description
		case f != nil && f.any:
			got = "*"
		case f != nil:
			got = f.id
		}
		if got != c.want && (e == nil || c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if e != nil && f != nil {
			t.Errorf("%s: refused, and a filter", c.name)
		}
	}
	if _, e := ReadFilters(one(keySessionFilter, "a"), false, 128); e == nil || e.Condition != amqp.CondNotImplemented {
		t.Errorf("a session filter where there are no messages: %v", e)
	}
}

// 0.11: the answer has the key and the form of the attach. The wait for a session is a little
// shorter than the client's.
func TestSessionFilterAnswers(t *testing.T) {
	t.Parallel()
	filters := amqp.Map{{Key: amqp.Symbol("other"), Value: nil}, {Key: "mine", Value: amqp.Described{Descriptor: amqp.Symbol(keySessionFilter), Value: nil}}}
	got := Granted(filters, "a")
	if d, _ := got[0].Value.(amqp.Described); len(got) != 1 || got[0].Key != "mine" || d.Value != "a" || d.Descriptor != amqp.Symbol(keySessionFilter) {
		t.Errorf(`%+v; want len(got) == 1 && got[0].Key == "mine" && d.Value == "a" && d.Descriptor == amqp.Symbol(keySessionFilter)`, got)
	}
	if got := Granted(filters[:1], "a"); got != nil {
		t.Errorf("%+v, want nil", got)
	}
	for _, c := range []struct {
		timeout any
		want    time.Duration
	}{
		{nil, DefaultSessionWait}, {uint32(1000), 900 * time.Millisecond}, {int64(60_000), 59_500 * time.Millisecond}, {int64(-1), 0},
		{uint64(1 << 63), MaxTimeout - 500*time.Millisecond},
	} {
		if got := (&SessionFilter{any: true}).Request(amqp.Map{{Key: keyTimeout, Value: c.timeout}}); got.Wait != c.want || !got.Any {
			t.Errorf("%v: %+v; want got.Wait == c.want && got.Any", c.timeout, got)
		}
	}
}
