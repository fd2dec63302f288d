package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// Chapters are sealed while everything goes on, in half of the worlds (log-format.md 3.2): at once,
// or some time after they were closed; a crash comes in the middle of it as of anything else.
// Nothing else differs, so whatever is asked of a log is asked of sealed files.

// addSealing adds it to a world. A world in which bits flip at rest has none: a start does not look
// at all of a sealed file, so what was damaged there is found when it is read.
func (o *options) addSealing(rng *rand.Rand) {
	if rng.IntN(2) == 0 || o.damage {
		return
	}
	o.sealAfter = pick(rng, -1, -1, 20*time.Millisecond, time.Second)
	o.sealing = pick(rng, 1, 10, 50)
	if o.chapterBytes > 32<<10 {
		o.chapterBytes = pick(rng, 1, 4<<10, 32<<10)
	}
}

// seal lets a partition seal a chapter, if it is time.
func (w *world) seal(p *part) {
	if w.o.sealAfter == 0 || w.gone() || p.corruption != nil || p.plog == nil || p.loop == nil || w.sealRand.IntN(100) >= w.o.sealing {
		return
	}
	dying := w.o.dying > 0 && w.armed == 0 && w.sealRand.IntN(100) < w.o.dying
	if dying {
		w.armed = 1 + w.sealRand.IntN(40)
	}
	more, err := p.plog.(log.Sealer).Seal(context.Background())
	switch {
	case more:
		w.stats.Sealed++
		w.note("sealed", int64(p.id))
	case errors.Is(err, faultfs.ErrCrashed):
		w.stats.DiedSealing++
		w.spaces.sealed = true
	case err != nil && !p.faulted && !errors.Is(err, log.ErrClosed):
		w.broken("I27", "partition %d: sealing: %v", p.id, err)
	}
	if dying && !w.gone() {
		w.armed = 0
	}
	w.ifStopped()
}
