package ledger

import (
	"context"
	"testing"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
)

// paused counts the bytes that a question takes from the budget of background work.
type paused struct {
	past.Source
	bytes []int
}

func (p *paused) Pause(_ context.Context, bytes int) { p.bytes = append(p.bytes, bytes) }

// A question rests after a frame as soon as it has read and sent enough since the last rest.
func TestQuestionRests(t *testing.T) {
	t.Parallel()
	from, done := &paused{}, 0
	s := &source{Source: from, done: &done}
	s.rest(t.Context(), restEvery-1)
	if from.bytes != nil {
		t.Errorf("it rests for %v", from.bytes)
	}
	done += 11 // told
	s.rest(t.Context(), 0)
	s.rest(t.Context(), 10*restEvery)
	s.rest(t.Context(), 1)
	if len(from.bytes) != 2 || from.bytes[0] != restEvery+10 || from.bytes[1] != 10*restEvery {
		t.Errorf("it rests for %v", from.bytes)
	}
}
