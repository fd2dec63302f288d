package log

import (
	"errors"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// readFile returns a small file. Files over limit are damage: nothing we write is longer.
func readFile(fsys disk.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes", format.ErrDamaged, size)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && !(errors.Is(err, io.EOF) && n == len(p)) {
		return nil, err
	}
	return p, nil
}
