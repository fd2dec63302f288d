package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAppendString(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                          `""`,
		"orders/$dlq":               `"orders/$dlq"`,
		"a\"b\\c<&>":                `"a\"b\\c<&>"`,
		"\b\f\n\r\t\x00\x1b\x7f":    `"\b\f\n\r\t\u0000\u001b\u007f"`,
		"é\u2028\ufffd":             `"\u00e9\u2028\ufffd"`,
		"\U0001f600 x":              `"\ud83d\ude00 x"`,
		"cut \xf0\x9f off \xff end": `"cut \ufffd\ufffd off \ufffd end"`,
	} {
		for n := range 17 { // at any place in its eight bytes
			s, want := strings.Repeat("x", n)+s+"behind it", want[:1]+strings.Repeat("x", n)+want[1:len(want)-1]+`behind it"`
			if got := string(AppendString(nil, s)); got != want {
				t.Errorf("%q: got %s, want %s", s, got, want)
			}
			if got := string(AppendString(nil, []byte(s))); got != want {
				t.Errorf("bytes %q: got %s, want %s", s, got, want)
			}
		}
	}
}

// Any string can be read again, from ASCII that no terminal acts on.
func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00é\U0001f600\xff")
	f.Fuzz(func(t *testing.T, s string) {
		text := AppendString([]byte("before"), s)[len("before"):]
		for _, c := range text {
			if c < ' ' || c >= 0x7f {
				t.Fatalf("%q has byte %#x", text, c)
			}
		}
		var got string
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		want := string([]rune(s))
		if got != want {
			t.Fatalf("%q is read as %q", s, got)
		}
		plain, err := json.Marshal([]string{s})
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		if err := json.Unmarshal(appendASCII(nil, plain), &list); err != nil || list[0] != want {
			t.Fatalf("%q in a list is read as %q, %v", s, list, err)
		}
	})
}

func BenchmarkAppendString(b *testing.B) {
	s := strings.Repeat("orders/$dlq ", 5)
	dst := make([]byte, 0, 128)
	for b.Loop() {
		dst = AppendString(dst[:0], s)
	}
}
