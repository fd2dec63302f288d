package sim

import (
	"bytes"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// throughBase compares a state with the one that its base gives: whatever becomes part of a state
// must have its place in the events of a base (decision 48).
func (w *world) throughBase(p *part, x *index.Index, want []byte) {
	s := x.Snapshot()
	defer s.Close()
	r := index.Restore()
	var dec event.Decoder
	for ev := range s.Base() {
		rec, _, err := dec.Record(0, [2]uint32{}, event.AppendRecord(nil, nil, x.LastAt(), []event.Event{ev}))
		if err == nil {
			err = r.Apply(rec.At, rec.Events[0])
		}
		if err != nil {
			w.broken("I24", "partition %d: the base of its state: %v", p.id, err)
			return
		}
	}
	if y, err := r.Index(); err != nil || !bytes.Equal(y.Encode(nil), want) {
		w.broken("I24", "partition %d: the base of its state gives another state: %v", p.id, err)
	}
}
