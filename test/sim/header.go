package sim

import (
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Messages with headers about as large as they may be, and changes of properties that may be too
// much for them (semantics.md 9.2, 16.3).

// large makes a message one whose header is in reach of the limit.
func (w *world) large(m *sent) {
	m.header = model.MaxHeader - 2 - w.rng.IntN(20) - pick(w.rng, 0, 60, 100, 400, 5000)
	m.body = make([]byte, m.header+20+w.rng.IntN(300))
	copy(m.body[8:], noise[w.rng.IntN(1000):])
}

// headerOf is what the message that a token locks has beside its body.
func (w *world) headerOf(t model.Token) int {
	if l := w.hist.byTok[t]; l != nil {
		return l.header
	}
	return 0
}

// change is what a settlement changes, of a message with that many bytes beside its body: now and
// then exactly as much as fits, or so much that what is left for a text is near 127 bytes, where it
// gets a longer length.
func (w *world) change(how model.Outcome, header int) (c model.Change) {
	room := model.MaxHeader - header
	left := room - len("DeadLetterReason") - len("DeadLetterErrorDescription") - 13 - 127 - w.rng.IntN(10)
	switch {
	case !w.o.headers || w.chance(30):
		c = model.Value(noise[w.rng.IntN(1000):][:1+w.rng.IntN(60)])
	case how != model.DeadLetter && room < 30_000 && w.chance(40):
		c = model.Value(noise[:model.ValueOf(room+w.rng.IntN(3)-1)])
	case how == model.DeadLetter && left >= 0 && left < 255 && w.chance(50):
		c = model.Words("DeadLetterReason", strings.Repeat("y", left), "DeadLetterErrorDescription", strings.Repeat("z", 900))
	case how != model.DeadLetter:
		// a few of them are too much
		c = model.Value(noise[w.rng.IntN(1000):][:1+w.rng.IntN(30_000)])
	case w.chance(90):
		words := []string{"DeadLetterReason", w.text(), "DeadLetterErrorDescription", w.text()}
		if w.chance(30) {
			words = append(words, "More", w.text())
		}
		c = model.Words(words...)
	}
	return c
}

// changes is a change as a client asks for it.
func changes(c model.Change) (all event.Changes) {
	for i := 0; i < len(c.Words); i += 2 {
		all = append(all, event.Property{Name: c.Words[i], Value: event.Value{Type: event.String, Text: c.Words[i+1]}})
	}
	if c.Value != nil {
		all = append(all, event.Property{Name: model.ValueName, Value: event.Value{Type: event.Encoded, Text: string(c.Value)}})
	}
	return all
}

// text is one of any length that clients let through.
func (w *world) text() string {
	return strings.Repeat(pick(w.rng, "x", "é", "日本", "🚌."), w.rng.IntN(pick(w.rng, 3, 60, 1000)))
}

// header says what the messages have beside their bodies, as far as the client knows: whoever
// settles on a link does, whoever has only tokens does not.
func (w *world) header(a *ask, cmd *engine.Settle) {
	if len(a.tokens) > 1 || a.op == opStale || w.o.headers && w.chance(30) {
		cmd.Unread = len(cmd.Changes) > 0
		return
	}
	a.read = []int{w.headerOf(a.tokens[0])}
	cmd.Header = a.read[0]
}

// askAgain settles once more after what was shown has been read.
func (w *world) askAgain(a *ask, x *want) {
	again, cmd := *a, *a.cmd.(*engine.Settle)
	again.tag, again.cmd, again.read = w.tag(), &cmd, []int{}
	for i := range x.show {
		n := 0
		if l := w.hist.of(x.show[i].Body); l != nil {
			n = l.header
		}
		again.read = append(again.read, n)
	}
	cmd.Unread, cmd.Header, cmd.Headers = false, again.read[0], slices.Clone(again.read[1:])
	w.submit(&again)
}
