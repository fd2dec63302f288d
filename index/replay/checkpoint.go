package replay

import (
	"bytes"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxAhead is the largest number of bytes allocated because of the size in a checkpoint. For a
// larger state the buffer grows as it is read.
const maxAhead = 256 << 20

// load reads and decodes the state of a checkpoint.
func load(p log.Checkpoints, c log.CheckpointInfo) (*index.Index, error) {
	r, err := p.OpenCheckpoint(c.LSN)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var buf bytes.Buffer
	buf.Grow(int(min(c.Size, maxAhead)) + bytes.MinRead) // with room to find the end
	if _, err := buf.ReadFrom(r); err != nil {
		return nil, err
	}
	state := buf.Bytes()
	if len(state) > 0 {
		if err := checkEncoding(state[0]); err != nil {
			return nil, err
		}
	}
	return index.Decode(state)
}

// Usable reads an opened checkpoint to the end, which compares its checksums. It returns why no
// replay can begin there; nil when one can. It keeps nothing of it.
func Usable(r io.Reader) error {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	return checkEncoding(first[0])
}

// Current reports whether a checkpoint is in the encoding of this version, and therefore usable. It
// reads no more than that.
func Current(p log.Checkpoints, at event.LSN) bool {
	r, err := p.OpenCheckpoint(at)
	if err != nil {
		return false
	}
	defer r.Close()
	var first [1]byte
	_, err = io.ReadFull(r, first[:])
	return err == nil && checkEncoding(first[0]) == nil
}

// checkEncoding refuses a state in the encoding of another version, which is not damage.
func checkEncoding(version byte) error {
	if version == index.EncodingVersion {
		return nil
	}
	return fmt.Errorf("the state has encoding version %d, this program reads and writes %d", version, index.EncodingVersion)
}
