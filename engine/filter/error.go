package filter

import "fmt"

// Error tells why a rule is refused at its creation (semantics.md 15.6).
type Error struct {
	Part     string // of the rule: filter, action
	Position int    // in the text, of the erroneous character, from 1; 0: no single one
	Text     string
}

func (e *Error) Error() string {
	if e.Position == 0 {
		return fmt.Sprintf("%s: %s", e.Part, e.Text)
	}
	return fmt.Sprintf("%s: character %d: %s", e.Part, e.Position, e.Text)
}

// EvalError tells why a filter or an action could not be evaluated for a message (semantics.md
// 15.6).
type EvalError struct{ Text string }

func (e *EvalError) Error() string { return e.Text }

// capital returns a text that begins with a small ASCII letter with that letter in upper case, to
// begin a sentence.
func capital(s string) string { return string(s[0]-'a'+'A') + s[1:] }
