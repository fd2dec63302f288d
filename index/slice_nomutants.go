//go:build !mutants

package index

import "github.com/ledgerbus/ledgerbus/log/event"

// Nobody calls these: the planted bugs are in slice_mutants.go.

func (*sessions) leastFailed(*session) event.SequenceNumber { return 0 }

func (*slice) newestLive() event.SequenceNumber { return 0 }

// Deliverable is a planted bug.
func Deliverable(*Index, event.Slice) {}
