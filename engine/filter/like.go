package filter

import (
	"strings"
	"unicode/utf8"
)

// pattern is the right side of LIKE: a machine with a bit per character of it (Shift-And), which
// reads a text once. So its time is linear in the text, whatever the pattern (reliability.md T4).
//
// Bit i of the machine's state is set if the text so far matches the first i characters of the
// pattern, counting _ and not %. A bit in loops stays when a character passes, because a % follows.
type pattern struct {
	items int // characters and _ of the pattern
	words int // words of 64 bits in a state
	loops []uint64
	// masks has rows of words. Bit i is set if the character of the row may be the i-th of the
	// pattern. Row 0 is for characters that only a _ matches.
	masks []uint64
	ascii [utf8.RuneSelf]uint16 // row of a character
	other map[rune]uint16       // of those outside ASCII

	plain plainness // patterns that need no machine
	text  string    // the text to equal, begin with, ...
}

type plainness uint8

const (
	notPlain plainness = iota
	plainWhole
	plainPrefix
	plainSuffix
	plainInfix
)

const (
	anyOne  = -1 // _
	anyMany = -2 // %
	// charactersPerStep is the number of characters of a text, or words of a table, that LIKE
	// processes for one step.
	charactersPerStep = 64
)

// patternItems resolves escapes: it returns the characters of a pattern, anyOne and anyMany. escape
// is -1 without ESCAPE. An escape character before any other character is an ordinary character.
func patternItems(text string, escape rune) []rune {
	in := []rune(text)
	out := make([]rune, 0, len(in))
	for i := 0; i < len(in); i++ {
		r := in[i]
		switch {
		case r == escape && i+1 < len(in) && (in[i+1] == '%' || in[i+1] == '_' || in[i+1] == escape):
			i++
			out = append(out, in[i])
		case r == '%':
			out = append(out, anyMany)
		case r == '_':
			out = append(out, anyOne)
		default:
			out = append(out, r)
		}
	}
	return out
}

// newPattern prepares a pattern. It reports its cost to charge, and returns nil if that returns
// false.
func newPattern(text string, escape rune, charge func(words int) bool) *pattern {
	all := patternItems(text, escape)
	p := &pattern{}
	rows := 1
	for _, r := range all {
		if r != anyMany {
			p.items++
		}
		rows += p.addRow(r, rows)
	}
	p.words = (p.items + 64) / 64
	if !charge(rows*p.words + len(all)) {
		return nil
	}
	if p.plain = p.plainOf(all); p.plain != notPlain {
		return p
	}
	p.loops = make([]uint64, p.words)
	p.masks = make([]uint64, rows*p.words)
	at := 0
	for _, r := range all {
		if r == anyMany {
			p.loops[at/64] |= 1 << (at % 64)
			continue
		}
		at++
		row := 0
		if r != anyOne {
			row = p.row(r)
		}
		p.masks[row*p.words+at/64] |= 1 << (at % 64)
	}
	for i := p.words; i < len(p.masks); i++ {
		p.masks[i] |= p.masks[i%p.words] // a _ matches the characters of every row
	}
	return p
}

// addRow assigns the row next to a character if it has none, and returns how many rows it has
// added.
func (p *pattern) addRow(r rune, next int) int {
	switch {
	case r < 0 || p.row(r) != 0:
		return 0
	case r < utf8.RuneSelf:
		p.ascii[r] = uint16(next)
	default:
		if p.other == nil {
			p.other = map[rune]uint16{}
		}
		p.other[r] = uint16(next)
	}
	return 1
}

func (p *pattern) row(r rune) int {
	if r < utf8.RuneSelf {
		return int(p.ascii[r])
	}
	return int(p.other[r])
}

// plainOf recognizes patterns with % at the ends only and without _.
func (p *pattern) plainOf(all []rune) plainness {
	kind := plainWhole
	if len(all) > 0 && all[len(all)-1] == anyMany {
		all, kind = all[:len(all)-1], plainPrefix
	}
	if len(all) > 0 && all[0] == anyMany {
		all = all[1:]
		if kind == plainPrefix {
			kind = plainInfix
		} else {
			kind = plainSuffix
		}
	}
	for _, r := range all {
		if r < 0 || r == utf8.RuneError { // RuneError also represents bytes that are no character
			return notPlain
		}
	}
	p.text = string(all)
	return kind
}

// match reports whether a text matches the pattern. state has room for p.words.
func (p *pattern) match(text string, state []uint64) bool {
	switch p.plain {
	case plainWhole:
		return text == p.text
	case plainPrefix:
		return strings.HasPrefix(text, p.text)
	case plainSuffix:
		return strings.HasSuffix(text, p.text)
	case plainInfix:
		return strings.Contains(text, p.text)
	}
	if p.words == 1 {
		return p.matchOne(text)
	}
	clear(state)
	state[0] = 1
	for _, r := range text {
		masks := p.masks[p.row(r)*p.words:]
		carry, alive := uint64(0), uint64(0)
		for i, s := range state {
			state[i] = (s<<1|carry)&masks[i] | s&p.loops[i]
			carry = s >> 63
			alive |= state[i]
		}
		if alive == 0 {
			return false
		}
	}
	return state[p.items/64]>>(p.items%64)&1 == 1
}

// matchOne is match for a state of one word.
func (p *pattern) matchOne(text string) bool {
	state, loops, last := uint64(1), p.loops[0], uint64(1)<<p.items
	for _, r := range text {
		state = state<<1&p.masks[p.row(r)] | state&loops
		if state == 0 {
			return false
		}
		if state&loops&last != 0 {
			return true // a % at the end takes the rest
		}
	}
	return state&last != 0
}
