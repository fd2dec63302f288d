package ledger

import (
	"context"
	"runtime"
	"time"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// While messages come and go a question works for workTime and rests restShare times as long, so it has a fifth of a core, in pieces that a send hardly
// notices; one of a reader that follows the log, whose work never ends, rests followRest times as long. A broker that has nothing else to do answers as
// fast as it can. Every yieldTime a question lets others go first.
const (
	workTime   = 80 * time.Microsecond
	yieldTime  = 20 * time.Microsecond
	restShare  = 4
	followRest = 18
	// mostPaceRest bounds one rest: a frame may take long, and its reader is not to be punished for it.
	mostPaceRest = 20 * time.Millisecond
)

// pace makes one question rest now and then while the logs of its broker grow.
type pace struct {
	share   time.Duration // how many times as long as it works it rests
	logs    []log.Partition
	ends    event.LSN // of all logs, added up, at the last look
	began   time.Time // of the work since the last rest
	yielded time.Time
	now     func() time.Time
	give    func()
	sleep   func(context.Context, time.Duration)
}

// shareOf is how many times as long as it works a question rests.
func shareOf(q *past.Question) time.Duration {
	if q.Verb == "log" || q.After != "" { // whoever asks comes back for more
		return followRest
	}
	return restShare
}

func newPace(ctx context.Context, of past.Source) *pace {
	p := &pace{share: restShare, now: time.Now, give: runtime.Gosched, sleep: sleep}
	for _, id := range of.Partitions() {
		if l, err := of.Open(ctx, id); err == nil { // nobody waits for a partition that does not serve
			p.logs = append(p.logs, l)
		}
	}
	p.grown()
	p.began = p.now()
	return p
}

// grown reports whether anything was made durable since the last look.
func (p *pace) grown() bool {
	var ends event.LSN
	for _, l := range p.logs {
		_, end := l.Bounds()
		ends += end
	}
	changed := ends != p.ends
	p.ends = ends
	return changed
}

// yield gives the processor to whoever waits for it, once in yieldTime. That time does not count as work.
func (p *pace) yield() {
	before := p.now()
	if before.Sub(p.yielded) < yieldTime {
		return
	}
	p.give()
	p.yielded = p.now()
	p.began = p.began.Add(p.yielded.Sub(before))
}

// rest rests, if it is time.
func (p *pace) rest(ctx context.Context) {
	now := p.now()
	worked := now.Sub(p.began)
	if worked < workTime {
		return
	}
	if p.grown() {
		p.sleep(ctx, min(p.share*worked, mostPaceRest))
		now = p.now()
	}
	p.began = now
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
