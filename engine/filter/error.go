package filter

import "fmt"

// Error says why a rule is refused at its creation (semantics.md 15.6).
type Error struct {
	Part     string // of the rule: filter, action
	Position int    // of the character in the text that is wrong, from 1; 0: it is no single place
	Text     string
}

func (e *Error) Error() string {
	if e.Position == 0 {
		return fmt.Sprintf("%s: %s", e.Part, e.Text)
	}
	return fmt.Sprintf("%s: character %d: %s", e.Part, e.Position, e.Text)
}

// EvalError says why a filter or an action could not be evaluated for a message (semantics.md 15.6).
type EvalError struct{ Text string }

func (e *EvalError) Error() string { return e.Text }

// capital makes the beginning of a sentence of a text that begins with a small letter of ASCII.
func capital(s string) string { return string(s[0]-'a'+'A') + s[1:] }
