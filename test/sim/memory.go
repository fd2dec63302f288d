package sim

import "sync/atomic"

// account is the memory of a process (docs/decisions/0041), from which couriers, checkpoints and
// the cache of sealed blocks take theirs. In some worlds it is short now and then: whoever asks
// then gets none, and must make do with less, or wait. Nothing else may come of it. That is the
// first level of shortage; at the second what lasts is refused as well, see [faults].
//
// What connections have is not there, for the protocol is not.
type account struct {
	w     *world
	taken atomic.Int64
}

// Take implements [log.Memory].
func (a *account) Take(bytes int) bool {
	if s := &a.w.faults; s.littleMemory || s.noMemory {
		a.w.stats.MemoryRefused++
		return false
	}
	a.taken.Add(int64(bytes))
	return true
}

// Owe implements [log.Memory].
func (a *account) Owe(bytes int) { a.taken.Add(int64(bytes)) }

// Give implements [log.Memory].
func (a *account) Give(bytes int) {
	if left := a.taken.Add(-int64(bytes)); left < 0 {
		a.w.broken("S4 (memory)", "%d bytes more are given back than were taken", -left)
	}
}

// Exceeds implements [log.Memory].
func (a *account) Exceeds(int) bool {
	s := &a.w.faults
	return (s.littleMemory || s.noMemory) && a.taken.Load() > 0
}

// allGiven checks that everything that was taken has been given back when all that took it is
// closed: else there would be less with each restart of a partition.
func (w *world) allGiven() {
	for _, p := range w.parts {
		if p.courier != nil {
			p.courier.Close()
		}
	}
	if left := w.memory.taken.Load(); left != 0 {
		w.broken("S4 (memory)", "everything is closed, and %d bytes of memory are taken", left)
	}
}
