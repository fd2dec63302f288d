package loop

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
)

// SnapshotMemory is the memory taken from the process's account for a snapshot
// (docs/decisions/0041). It covers the results made of the snapshot, and the data that the owner
// has changed since, which exists twice until the snapshot is closed. It belongs to one goroutine
// at a time.
type SnapshotMemory struct {
	From  log.Memory // nil: unlimited
	fixed int        // for what is made of the snapshot
	taken int
}

// Take takes memory before a snapshot is taken; copies is for expected changes. If there is none,
// it returns false, unless must is set.
func (m *SnapshotMemory) Take(fixed, copies int, must bool) bool {
	n := fixed + copies
	if m.From == nil {
		m.From = log.Unbounded{}
	}
	if !m.From.Take(n) {
		if !must {
			return false
		}
		m.From.Owe(n)
	}
	m.fixed, m.taken = fixed, n
	return true
}

// Follow takes more memory if the snapshot costs more than expected by now, and returns the cost of
// the copies.
func (m *SnapshotMemory) Follow(s *index.Snapshot) (copies int) {
	copies = int(s.Copied())
	if more := m.fixed + copies - m.taken; more > 0 {
		m.From.Owe(more)
		m.taken += more
	}
	return copies
}

// Give frees all of it.
func (m *SnapshotMemory) Give() {
	if m.taken > 0 {
		m.From.Give(m.taken)
	}
	m.fixed, m.taken = 0, 0
}
