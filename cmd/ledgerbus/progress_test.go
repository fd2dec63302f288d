package main

import (
	"strings"
	"testing"
)

// A progress bar is shown on a terminal for long work, and not between messages that are printed
// there.
func TestWhoSeesABar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		out, err bool
		total    int
		printed  bool
		want     bool
	}{
		{true, true, 999, false, false}, {true, true, 1000, false, true}, {true, true, 1001, false, true}, {true, true, 1, false, false},
		{true, true, 0, false, true}, // unknown number
		{true, true, 1000, true, false}, {true, true, 0, true, false},
		// the messages go to a file
		{false, true, 1000, true, true}, {false, true, 999, true, false}, {false, true, 0, true, true},
		{true, false, 1_000_000, false, false}, {false, false, 1_000_000, true, false}, {true, false, 0, false, false},
	} {
		if got := (audience{c.out, c.err}).sees(c.total, c.printed); got != c.want {
			t.Errorf("%+v: %v, want %v", c, got, c.want)
		}
	}
	for total, want := range map[int]bool{0: false, 49: false, 50: true, 51: true} {
		if got := (audience{err: true}).seesEntities(total); got != want {
			t.Errorf("%d entities: %v", total, got)
		}
		if (audience{out: true}).seesEntities(total) {
			t.Errorf("%d entities, and nobody to see them", total)
		}
	}
}

// A progress bar shows the work done, its share and its rate. It prints no control character of a
// name, and removes itself at the end.
func TestBar(t *testing.T) {
	t.Parallel()
	for total, want := range map[int]string{1000: "(600/1000", 0: "(600/-"} {
		var drawn strings.Builder
		bar := newBar(&drawn, total, "sending to a\x1bb", "messages")
		bar.add(600)
		_ = bar.bar.RenderBlank()
		text := drawn.String()
		if !strings.Contains(text, want) || !strings.Contains(text, `sending to a\u001bb`) || !strings.Contains(text, "messages/s") {
			t.Errorf("%q; want strings.Contains(text, want) && strings.Contains(text, `sending to a\\u001bb`) && strings.Contains(text, \"messages/s\")", text)
		}
		bar.finish()
		text = drawn.String()
		if left := text[strings.LastIndex(text, "\r")+1:]; left != "" || strings.Contains(text, "\n") {
			t.Errorf(`%q; want left == "" && !strings.Contains(text, "\n")`, text)
		}
	}
	var none progress
	none.add(1)
	none.finish()
}
