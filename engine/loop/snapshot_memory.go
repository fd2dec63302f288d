package loop

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
)

// SnapshotMemory is what was taken of the process's memory for a snapshot (docs/decisions/0041):
// for what is made of it, and for what the owner of the state has changed since, which is there
// twice until the snapshot is closed. It belongs to one goroutine at a time.
type SnapshotMemory struct {
	From  log.Memory // nil: there is enough
	fixed int        // for what is made of it
	taken int
}

// Take takes memory before a snapshot is taken, copies of it for changes that are expected. Where
// there is none it reports false, unless it must.
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

// Follow takes what the snapshot costs by now where that is more than was expected, and returns it.
func (m *SnapshotMemory) Follow(s *index.Snapshot) (copies int) {
	copies = int(s.Copied())
	if more := m.fixed + copies - m.taken; more > 0 {
		m.From.Owe(more)
		m.taken += more
	}
	return copies
}

// Give gives all of it back.
func (m *SnapshotMemory) Give() {
	if m.taken > 0 {
		m.From.Give(m.taken)
	}
	m.fixed, m.taken = 0, 0
}
