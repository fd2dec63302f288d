package filter

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// LIKE follows its definition: patterns of one word and of several, with few characters so that
// many match.
func TestLikeAgainstDefinition(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := rand.New(rand.NewPCG(seed, 3))
	random := func(n int, from string) string {
		runes := []rune(from)
		var b strings.Builder
		for range n {
			b.WriteRune(runes[w.IntN(len(runes))])
		}
		return b.String()
	}
	fits := 0
	for range 4000 {
		pat, escape := random(w.IntN(12), "abü%_%!"), rune(-1)
		if w.IntN(2) == 0 {
			escape = '!'
		}
		text := random(w.IntN(14), "abü%")
		if w.IntN(10) == 0 { // long ones: many words
			pat, text = strings.Repeat(pat, 20), strings.Repeat(text, 30)
		}
		if w.IntN(3) == 0 { // made to match
			text = strings.NewReplacer("%", random(3, "ab"), "_", "ü", "!", "!").Replace(pat)
		}
		p := newPattern(pat, escape, func(int) bool { return true })
		got, want := p.match(text, make([]uint64, p.words)), naiveLike([]rune(text), []rune(pat), escape)
		if got != want {
			t.Fatalf("seed %d: %q LIKE %q ESCAPE %q is %v", seed, text, pat, escape, got)
		}
		if got {
			fits++
		}
	}
	if fits < 400 {
		t.Errorf("only %d texts fit their pattern", fits)
	}
}

// Patterns around the size of a word.
func TestLikeWords(t *testing.T) {
	t.Parallel()
	for n := 1; n < 200; n++ {
		pat := strings.Repeat("a_", n/2) + strings.Repeat("b", n%2)
		text := strings.Repeat("ax", n/2) + strings.Repeat("b", n%2)
		for _, c := range []struct {
			text, pat string
			want      bool
		}{
			{text, pat, true}, {text + "b", pat, false}, {text[1:], pat, false}, {text + "bbb", pat + "%", true}, {"ax" + text, "%" + pat, true},
			{text + text, pat + "%" + pat, true}, {text + text[1:], pat + "%" + pat, false},
		} {
			p := newPattern(c.pat, -1, func(int) bool { return true })
			if got := p.match(c.text, make([]uint64, p.words)); got != c.want {
				t.Errorf("%d: %s LIKE %s is %v", n, c.text, c.pat, got)
			}
		}
	}
}
