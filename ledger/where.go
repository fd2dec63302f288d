package ledger

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// where is a condition on the fields of a row, in the language that rules of topics have.
type where struct {
	set *filter.Set // nil: everything matches
	m   filter.Message
}

// newWhere compiles a condition, such as type IN ('lost', 'dead') AND entity = 'orders'. The names are those of the columns, in lower case.
func newWhere(text string) (*where, error) {
	if text == "" {
		return &where{}, nil
	}
	w := &where{set: filter.NewSet()}
	if err := w.set.Put(1, event.Rule{Name: "where", Filter: event.Filter{Kind: event.SQLFilter, Text: text}}); err != nil {
		return nil, fmt.Errorf("%w: --where: %w", ErrQuestion, err)
	}
	return w, nil
}

// matches reports whether a row fulfils the condition.
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
