package tools

import (
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
)

// base reports the base that a log begins with, if it does not begin with its first frame
// (log-format.md 3.3). The replay, which starts from the base, checks whether it leads to the right
// state.
func (v *verifier) base(p log.Partition) error {
	b, ok := baseOf(p)
	if !ok {
		return nil
	}
	if !slices.Contains(v.listed, log.Based) {
		if err := v.damage(&log.CorruptError{Partition: p.ID(), File: b.File, LSN: b.LSN,
			Reason: fmt.Sprintf("a base needs the capability %q, which namespace.json does not list", log.Based)}); err != nil {
			return err
		}
	}
	return v.print(fmt.Sprintf("base partition %d LSN %d file %+q: %d bytes", p.ID(), b.LSN, b.File, b.Size), print.Object{print.Named("Found", "base"),
		print.Named("Partition", uint64(p.ID())), print.Named("LSN", uint64(b.LSN)), print.Named("File", b.File), print.Named("Bytes", uint64(b.Size))})
}

func baseOf(p log.Partition) (log.BaseInfo, bool) {
	b, ok := p.(log.Bases)
	if !ok {
		return log.BaseInfo{}, false
	}
	return b.Base()
}

// checkKept returns an error if from is before the LSN at which the kept history begins.
func checkKept(p log.Partition, from uint64) error {
	first, _ := p.Bounds()
	if _, ok := baseOf(p); ok && from != 0 && from < uint64(first) {
		return fmt.Errorf("%w: partition %d: history begins at LSN %d", log.ErrGone, p.ID(), first)
	}
	return nil
}
