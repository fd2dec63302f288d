package engine

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The memory of a command is reused only if its sender agreed to that: any other sender may look at
// its command again.
func TestRecycle(t *testing.T) {
	t.Parallel()
	kept := &Settle{Token: event.LockToken{1}, Outcome: Complete}
	reused := kept.Recycled()
	if reused == kept || reused.Token != kept.Token || reused.Outcome != Complete {
		t.Fatalf("a copy of %v is %v", kept.Token, reused)
	}
	kept.Recycle()
	if kept.Token != (event.LockToken{1}) {
		t.Error("a command that is its sender's was taken")
	}
}
