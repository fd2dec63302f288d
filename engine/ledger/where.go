package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// where is a condition on the fields of a row, in the language that rules of topics have.
type where struct {
	set *filter.Set // nil: every row matches
	m   filter.Message
}

// newWhere compiles a condition on the columns of events, such as type IN ('lost', 'dead') AND
// entity = 'orders'. It refuses a column that rows do not have: no row would ever match. from
// names, in errors, where the condition was given.
func newWhere(from, text string) (*where, error) {
	if text == "" {
		return &where{}, nil
	}
	w := &where{set: filter.NewSet()}
	err := w.set.Put(1, event.Rule{Name: "where", Filter: event.Filter{Kind: event.SQLFilter, Text: text}})
	var names []string
	if err == nil {
		names, err = filter.Properties(text)
	}
	for _, name := range names {
		if err == nil && !slices.ContainsFunc(EventColumns, func(c string) bool { return strings.EqualFold(c, name) }) {
			err = fmt.Errorf("unknown column %s; the columns are %s", word(name), fold(strings.Join(EventColumns, ", ")))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrQuestion, from, err)
	}
	return w, nil
}

// matches reports whether a row meets the condition.
func (w *where) matches(fields print.Object) (bool, error) {
	if w.set == nil {
		return true, nil
	}
	w.m.Reset()
	for _, f := range fields {
		v := event.Value{Type: event.String, Text: fmt.Sprint(f.Value())}
		if n, ok := f.Value().(uint64); ok {
			v = event.Value{Type: event.Long, Bits: n}
		}
		w.m.User = append(w.m.User, event.Property{Name: fold(f.Name), Value: v})
	}
	found := w.set.Match(&w.m, func() [16]byte { return [16]byte{} })
	if len(found) == 0 {
		return false, nil
	}
	if err := found[0].Err; err != nil {
		return false, fmt.Errorf("%w: --where: %w", ErrQuestion, err)
	}
	return true, nil
}
