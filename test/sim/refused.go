package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// A partition whose log is damaged is refused by a start, for as long as nobody puts the damage
// right; all others serve. Requests to its entities are turned away, messages that move there wait,
// the catalogue still has its entities and notes what is changed meanwhile, and none of its files
// is written. The clock may be set while it is away. Partition 0 is never refused: without the
// catalogue there is no broker.

// corruption is damage that has a partition refused.
type corruption struct {
	file string
	off  int64
	mask byte
	sum  uint64 // of all files of the partition; 0: the power has failed since
}

// running are the partitions that serve.
func (w *world) running() []*part {
	return slices.DeleteFunc(slices.Clone(w.parts), func(p *part) bool { return p.away })
}

// refused reports whether the partition of an entity is.
func (q *queue) refused() bool {
	return slices.ContainsFunc(q.whole.parts, func(part *queue) bool { return part.away() })
}

// away reports whether the log of this partition of an entity is.
func (q *queue) away() bool { return q.host != nil && q.host.away }

// injure damages a log before a start, or puts earlier damage right.
func (w *world) injure() {
	for _, p := range w.parts {
		// it may pass for a torn tail since the power failed
		if p.corruption != nil && (w.draining || w.chance(60) || !w.refuses(p, w.disk)) {
			w.heal(p)
		}
	}
	if !w.o.refuses || w.draining || slices.ContainsFunc(w.parts, func(p *part) bool { return p.dropped }) || w.stats.Recoveries == 0 || !w.chance(20) {
		return
	}
	p := w.parts[w.rng.IntN(len(w.parts))]
	files := slices.DeleteFunc(w.disk.Files(p.folder()), func(name string) bool {
		b, _ := w.disk.ReadFile(name)
		return len(b) == 0 || !strings.Contains(name, "/wal/")
	})
	if p.id == 0 || p.corruption != nil || len(files) == 0 {
		return
	}
	name := files[w.rng.IntN(len(files))]
	b, _ := w.disk.ReadFile(name)
	d := &corruption{file: name, off: int64(w.rng.IntN(min(len(b), 4000))), mask: 1 << w.rng.IntN(8)}
	injured := w.disk.Clone()
	if injured.Flip(d.file, d.off, d.mask); !w.refuses(p, injured) {
		return
	}
	w.disk.Flip(d.file, d.off, d.mask)
	d.sum, p.corruption = w.sum(p), d
	w.note("injured "+name, d.off)
	w.stats.Injured++
}

// heal puts damage right. Nobody has written to what was refused.
func (w *world) heal(p *part) {
	d := p.corruption
	if d.sum != 0 && d.sum != w.sum(p) {
		w.broken("P24", "partition %d is refused, and its files were changed", p.id)
	}
	if b, _ := w.disk.ReadFile(d.file); d.off < int64(len(b)) {
		w.disk.Flip(d.file, d.off, d.mask)
	}
	p.corruption = nil
	w.note("healed", int64(p.id))
}

// refuses reports whether a start would refuse a partition as it is on a disk. What passes for a
// torn tail is for the damage mode.
func (w *world) refuses(p *part, disk *faultfs.FS) bool {
	store, err := w.storeOn(disk.Clone())
	if err != nil {
		return false
	}
	defer store.Close()
	_, err = store.Open(context.Background(), log.PartitionID(p.id))
	var c *log.CorruptError
	return errors.As(err, &c)
}

// refuse checks that a start refuses a partition that is damaged.
func (w *world) refuse(p *part) {
	_, err := w.store.Open(context.Background(), log.PartitionID(p.id))
	var c *log.CorruptError
	if w.crashed || w.faulted() {
		return
	}
	if !errors.As(err, &c) || int(c.Partition) != p.id {
		w.broken("P24", "partition %d is damaged in %s at %d, and opening it says %v", p.id, p.corruption.file, p.corruption.off, err)
	}
	w.note("refused", int64(p.id))
	w.stats.PartitionsRefused++
}

func (p *part) folder() string {
	return filepath.Join(root, "partitions", fmt.Sprintf("%02d", p.id))
}

// sum is that of all bytes of a partition.
func (w *world) sum(p *part) uint64 {
	h := fnv.New64a()
	for _, name := range w.disk.Files(p.folder()) {
		b, _ := w.disk.ReadFile(name)
		io.WriteString(h, name)
		h.Write(b)
	}
	return h.Sum64() | 1
}

// turnedAway is what comes of a request to a partition that is refused: it is answered at once, and
// nothing was done.
func (w *world) turnedAway(a *ask) {
	w.stats.Busy++
	w.note("busy", int64(a.op), int64(a.q.n))
	switch a.op {
	case opSend, opBatch:
		w.hist.sent(a, &want{at: a.asked, refusal: model.Busy}, &engine.Reply{}, false)
	case opAttach, opAccept:
		w.receivers = slices.DeleteFunc(w.receivers, func(r *receiver) bool { return r == a.rcv })
	}
}

// revive brings back a partition that is refused, while the others serve: somebody puts the damage
// right, its log is recovered by itself, and it is told all that it missed. Nothing of the
// catalogue changes meanwhile.
func (w *world) revive() {
	i := slices.IndexFunc(w.parts, func(p *part) bool { return p.away })
	if i < 0 || w.admin != nil {
		return
	}
	p := w.parts[i]
	if w.failing > 0 && p.corruption != nil {
		return
	}
	if p.corruption != nil {
		w.heal(p)
	}
	w.note("revive", int64(p.id))
	p.faulted = false
	x, err := w.recovered(p, w.store.Reopen, false)
	if err == nil && x != nil {
		p.away = false
		err = w.install(p, x)
	}
	switch {
	case w.crashed || w.ended:
	case err != nil && w.inVain(p, err):
	case err != nil:
		w.broken("P24", "partition %d is whole again, and restarting it says %v", p.id, err)
	default:
		w.stats.Revived++
		w.portsBack(p)
		p.dropped = p.dropped && p.faulted
		w.turn(p, nil)
	}
}

// install makes a partition that was recovered one of those that serve.
func (w *world) install(p *part, x *index.Index) error {
	if err := w.lead(p, x); err != nil {
		return err
	}
	last, now := w.parts[0].model.Clock, event.Time(w.broker())
	set := w.began.Follow(x, now, w.Wall())
	switch is := p.model.Clock; {
	case (set != nil) != (is.Number != last.Number), set != nil && (int(set.Number) != last.Number || int64(set.To-set.From) != last.Shift-is.Shift):
		w.broken("F15", "partition %d, which knows of %+v, is given %+v, it must come to %+v", p.id, is, set, last)
	case set != nil:
		if err := w.setClock(p, set); err != nil {
			return err
		}
	}
	for _, q := range w.queues {
		if s, exists := w.newestSetting(q); exists && q.host == p {
			q.entity.Use(now)
			q.use(int64(now)) // its time away does not count as idleness
			w.configure(q, s)
		}
	}
	w.orderAll(p)
	w.parts[0].state.Avoid(w.avoided())
	w.recover(p)
	for _, o := range w.running() {
		if o.courier != nil {
			o.courier.RetryNow()
		}
	}
	return nil
}

// avoided are the partitions on which no entity is made.
func (w *world) avoided() []bool {
	avoid := make([]bool, len(w.parts))
	for i, p := range w.parts {
		avoid[i] = p.away
	}
	return avoid
}

// ran notes how a run ended, for those that were in it. What was not synced before can be lost with
// the power at any time.
func (w *world) ran(how stop) {
	for _, p := range w.parts {
		if p.corruption != nil && how == stopPower {
			p.corruption.sum = 0
		}
		switch {
		case !p.away:
			p.how, p.missed = how, false
		case how == stopPower:
			if p.how == stopKill {
				p.how = stopPower
			}
			fallthrough
		default:
			p.missed = true
		}
	}
}
