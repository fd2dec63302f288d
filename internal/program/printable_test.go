package program

import "testing"

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\tü": "plain\n\tü", "\x1b[2J": `\u001b[2J`, "a\x00b": `a\u0000b`, "\xff\xfe": `\xff\xfe`, "\u202eabc": `\u202eabc`, "\u009b": `\u009b`, "\u2028\u2029": `\u2028\u2029`, "\uFFFD": "\uFFFD",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}
