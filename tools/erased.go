package tools

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
)

// erasedFiles reports the files in which some bodies are no longer kept. That is not damage: the
// rest of their frames was verified.
func (v *verifier) erasedFiles(p log.Partition) error {
	for _, s := range p.Segments() {
		if s.Erased == 0 {
			continue
		}
		err := v.print(fmt.Sprintf("erased file %+q: %d frames without all of their bodies", s.File, s.Erased),
			print.Object{print.Named("Found", "erased"), print.Named("Partition", uint64(p.ID())), print.Named("File", s.File), print.Named("Frames", s.Erased)})
		if err != nil {
			return err
		}
	}
	return nil
}
