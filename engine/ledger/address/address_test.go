package address

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want Address
		show string // "": as it was given
		path string
	}{
		{"orders", Address{Entity: "orders"}, "", "orders"},
		{"a/b.c-d_e~f", Address{Entity: "a/b.c-d_e~f"}, "", "a/b.c-d_e~f"},
		{"orders/$dlq", Address{Entity: "orders", SubQueue: event.DeadLetter}, "", "orders/$DeadLetterQueue"},
		{"Orders/$DeadLetterQueue", Address{Entity: "Orders", SubQueue: event.DeadLetter}, "Orders/$dlq", "Orders/$DeadLetterQueue"},
		{"orders/$DLQ#7", Address{Entity: "orders", SubQueue: event.DeadLetter, Number: 7}, "orders/$dlq#7", "orders/$DeadLetterQueue"},
		{"orders/$Transfer/$DeadLetterQueue", Address{Entity: "orders", SubQueue: event.TransferDeadLetter}, "orders/$transfer/$dlq", "orders/$Transfer/$DeadLetterQueue"},
		{"orders#88114", Address{Entity: "orders", Number: 88114}, "", "orders"},
		{"weather/Subscriptions/rain#281474976710657", Address{Entity: "weather/Subscriptions/rain", Number: 1<<48 + 1}, "", "weather/Subscriptions/rain"},
		{"@0/1839977", Address{Place: true, LSN: 1839977}, "", ""},
		{"@63/0", Address{Place: true, Partition: 63}, "", ""},
	} {
		got, err := Parse(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v; want got == c.want", c.text, got, err)
		}
		if c.show == "" {
			c.show = c.text
		}
		if got.String() != c.show || got.Path() != c.path {
			t.Errorf("%q shows as %q, path %q", c.text, got, got.Path())
		}
	}
	for _, text := range []string{"", "#7", "/$dlq", "orders#", "orders#0", "orders#-1", "orders#+1", "orders#007", "orders#1#2", "orders#9223372036854775808",
		"orders/$dead", "orders/$dlq/$dlq", "orders/", "/orders", "a//b", "a b", "a\x1b[2J", "a\xff", "a@b", "@", "@0", "@0/", "@/1", "@65536/1", "@0/x", "@0/1/2"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// What is shown is what is read, and shows as it did before.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"orders", "orders/$dlq", "orders#88114", "@0/1839977", "t/Subscriptions/s/$Transfer/$DeadLetterQueue#1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(a.String())
		if err != nil || again != a {
			t.Errorf("%q: %+v shows as %q, which is %+v, %v", text, a, a, again, err)
		}
		for _, r := range a.String() {
			if r < ' ' || r == 0x7f {
				t.Errorf("%q steers", a)
			}
		}
	})
}
