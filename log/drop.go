package log

import (
	"context"
	"fmt"
)

// dropping is the part of a partition that gives back the space of bodies.
type dropping struct{ p *partition }

// DropBodies implements [Compactor].
func (d dropping) DropBodies(ctx context.Context, file string, wanted func(*Body) bool, least int64) (int64, error) {
	return 0, fmt.Errorf("log: partition %d: bodies of %s cannot be dropped yet", d.p.id, file)
}
