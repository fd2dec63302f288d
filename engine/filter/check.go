package filter

import (
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxLength is the most characters in the text of a filter or an action (semantics.md 15.4, 15.5).
const maxLength = 1024

// maxRuleBytes bounds all texts of a rule together, because no message has longer properties to
// compare them with (semantics.md 16.3). Each text alone is at most as long as a property of a
// message.
const maxRuleBytes = 64 << 10

// Check refuses a rule that no subscription can have, with an [*Error]: a text that is not a filter
// or action or exceeds its limits, a parameter without a value, a correlation filter without a
// condition (semantics.md 15.3 to 15.6). It looks only at the filter and the action.
func Check(r *event.Rule) error {
	_, err := compile(r)
	if err != nil {
		return err
	}
	return nil
}

// compiledRule is a rule's filter and action, ready to be put in force.
type compiledRule struct {
	kind   event.FilterKind
	filter *program // of an SQL filter
	test   *test    // of a correlation filter
	action *action  // nil: none
}

func compile(r *event.Rule) (compiledRule, *Error) {
	c := compiledRule{kind: r.Filter.Kind}
	err := checkSizes(r)
	if err != nil {
		return c, err
	}
	switch f := &r.Filter; f.Kind {
	case event.TrueFilter, event.FalseFilter:
	case event.SQLFilter:
		if err = checkText("filter", f.Text, f.Parameters); err == nil {
			c.filter, err = compileFilter(f.Text, f.Parameters)
		}
	case event.CorrelationFilter:
		c.test, err = newTest(f)
	default:
		err = &Error{Part: "filter", Text: "unknown kind"}
	}
	if err == nil && r.Action.Text != "" {
		if err = checkText("action", r.Action.Text, r.Action.Parameters); err == nil {
			c.action, err = compileAction(r.Action.Text, r.Action.Parameters)
		}
	}
	return c, err
}

// checkSizes bounds everything that a rule holds before it is compiled, including parts that its
// kind does not use: all of it is stored.
func checkSizes(r *event.Rule) *Error {
	const entry = 16 // the size of a pair without its texts, so that empty ones count
	left := maxRuleBytes
	fits := func(texts ...string) bool {
		for _, s := range texts {
			if left -= len(s); len(s) > maxProperty {
				return false
			}
		}
		left -= entry
		return left >= 0
	}
	for _, list := range [...]struct {
		part  string
		pairs []event.Property
	}{{"filter", r.Filter.Parameters}, {"filter", r.Filter.Properties}, {"action", r.Action.Parameters}} {
		for i := range list.pairs {
			if p := &list.pairs[i]; !fits(p.Name, p.Value.Text) {
				return tooLong(list.part)
			}
		}
	}
	for i := range r.Filter.Conditions {
		if !fits(r.Filter.Conditions[i].Text) {
			return tooLong("filter")
		}
	}
	if !fits(r.Filter.Text, r.Action.Text) {
		return tooLong("filter")
	}
	return nil
}

func tooLong(part string) *Error {
	return &Error{part, 0, "a name or value exceeds 32768 bytes, or the whole rule exceeds 65536 bytes"}
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
