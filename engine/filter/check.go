package filter

import (
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxLength is how many characters the text of a filter or an action may have (semantics.md 15.4, 15.5).
const maxLength = 1024

// Check refuses a rule that cannot be, with an [*Error]: a text that is no filter or action or over its limits, a parameter
// without a value, a correlation filter without a condition (semantics.md 15.3 to 15.6). Only the filter and the action are
// looked at.
func Check(r *event.Rule) error {
	_, err := compile(r)
	if err != nil {
		return err
	}
	return nil
}

// compiled is a rule's filter and action, ready to be put in force.
type compiled struct {
	kind   event.FilterKind
	filter *program // of an SQL filter
	test   *test    // of a correlation filter
	action *action  // nil: none
}

func compile(r *event.Rule) (compiled, *Error) {
	c := compiled{kind: r.Filter.Kind}
	var err *Error
	switch f := &r.Filter; f.Kind {
	case event.TrueFilter, event.FalseFilter:
	case event.SQLFilter:
		if err = checkText("filter", f.Text, f.Parameters); err == nil {
			c.filter, err = compileFilter(f.Text, f.Parameters)
		}
	case event.CorrelationFilter:
		c.test, err = newTest(f)
	default:
		err = &Error{Part: "filter", Text: "it is of no kind that there is"}
	}
	if err == nil && r.Action.Text != "" {
		if err = checkText("action", r.Action.Text, r.Action.Parameters); err == nil {
			c.action, err = compileAction(r.Action.Text, r.Action.Parameters)
		}
	}
	return c, err
}

func checkText(part, text string, params []event.Property) *Error {
	if n := utf8.RuneCountInString(text); n > maxLength {
		return &Error{part, maxLength + 1, "the text is longer than 1024 characters"}
	}
	if !utf8.ValidString(text) {
		return &Error{part, 0, "the text is not valid UTF-8"}
	}
	for i := range params {
		if p := &params[i]; p.Value.Type != event.Null && known(p.Value).Type == event.Null {
			return &Error{part, 0, "the parameter " + p.Name + " has no simple value"}
		}
	}
	return nil
}
