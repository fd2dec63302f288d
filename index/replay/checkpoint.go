package replay

import (
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// load reads and decodes the state of a checkpoint.
func load(p log.Checkpoints, at event.LSN) (*index.Index, error) {
	r, err := p.OpenCheckpoint(at)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	state, err := io.ReadAll(r)
	if err == nil && len(state) > 0 {
		err = known(state[0])
	}
	if err != nil {
		return nil, err
	}
	return index.Decode(state)
}

// Usable reads a checkpoint that was opened, to the end, which compares its checksums, and says why no replay can begin there; nil when
// one can. It holds nothing of it.
func Usable(r io.Reader) error {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	return known(first[0])
}

// known refuses a state whose encoding is of another program: it is no use to this one, and no damage.
func known(version byte) error {
	if version == index.EncodingVersion {
		return nil
	}
	return fmt.Errorf("the state has encoding version %d, this program reads and writes %d", version, index.EncodingVersion)
}
