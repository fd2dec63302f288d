//go:build !mutants

package index

import "github.com/ledgerbus/ledgerbus/log/event"

// Deliverable is a planted bug.
func Deliverable(*Index, event.Slice) {}
