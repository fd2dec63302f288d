package log

import (
	"context"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// basing is the part of a partition that knows what its log begins with.
type basing struct{ p *partition }

// Base implements [Bases].
func (v *basing) Base() (BaseInfo, bool) { return BaseInfo{}, false }

// OpenBase implements [Bases].
func (v *basing) OpenBase() (io.ReadCloser, error) {
	return nil, fmt.Errorf("log: partition %d has no base", v.p.id)
}

// SaveBase implements [Bases].
func (v *basing) SaveBase(context.Context, BaseInfo, func(io.Writer) error, func(io.Reader) error) error {
	return fmt.Errorf("%w: partition %d: this version makes no bases", ErrHeld, v.p.id)
}

// DropSealed implements [Bases].
func (v *basing) DropSealed(context.Context, func(first, end event.LSN) bool) (int64, error) {
	return 0, fmt.Errorf("%w: partition %d: it has no base", ErrTooLittle, v.p.id)
}
