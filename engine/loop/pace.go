package loop

import (
	"sync/atomic"
	"time"
)

// maxPatience is the longest a frame waits for company, whatever the disk's pace; beside other busy
// logs it is twice that.
const maxPatience = 2 * time.Millisecond

// largeGroup is how many records a group has at least if it is worth to wait for as many: a sync
// takes as much of the processors as some 30 messages.
const largeGroup = 8

// pacer keeps frames of equal size going (docs/decisions/0003). When a large frame is durable its
// replies go out, and the few requests that came meanwhile would make a small frame that keeps the
// disk busy while all the others queue up behind it: large and small frames would take turns, and
// disk and clients with them. So a frame much smaller than the one before waits a moment for the
// answers to those replies. A lone sender never waits: its frames are all of the same size.
//
// A group that nobody waits for, such as one of settlements that want no answer, goes at most every
// maxPatience: each sync costs the processors of those who do wait.
//
// Where several logs are busy (docs/decisions/0066) each gets a part of what comes, and would sync
// a part of it as often as one log syncs all of it. So a large group waits until as many have come
// as were answered by the one before, for as long as twice the syncs of the others would take one
// after the other. All logs together then sync about as often as one.
//
// The zero value never waits. A simulation uses that: what a pacer does depends on the real clock.
type pacer struct {
	on        bool
	logs      *BusyLogs     // of the namespace; nil: there is no other
	busy      bool          // counted there
	last      int           // records in the group that became durable last
	kept      int           // records that came while it was being synced
	sealed    time.Time     // when it was handed over
	took      time.Duration // until it was durable
	committed time.Time
}

// BusyLogs counts how many logs of a namespace have something on its way to the disk.
type BusyLogs struct{ n atomic.Int32 }

func (p *pacer) seal(records int) {
	if p.on {
		p.last, p.sealed = records, time.Now()
		p.count(true)
	}
}

// land notes that a group is durable, and how many records wait for the next sync. Busy: it will
// come.
func (p *pacer) land(records int, busy bool) {
	if p.on {
		p.committed = time.Now()
		p.took, p.kept = p.committed.Sub(p.sealed), records
		p.count(busy)
	}
}

// end has the pacer wait no more.
func (p *pacer) end() {
	p.count(false)
	p.on = false
}

// count counts the log among those that are busy, or no more.
func (p *pacer) count(busy bool) {
	if p.logs == nil || p.busy == busy {
		return
	}
	if p.busy = busy; busy {
		p.logs.n.Add(1)
	} else {
		p.logs.n.Add(-1)
	}
}

// otherBusyLogs is how many other logs are busy, where the last group was large; otherwise they do
// not matter.
func (p *pacer) otherBusyLogs() int {
	if p.logs == nil || p.last < largeGroup {
		return 0
	}
	n := int(p.logs.n.Load())
	if p.busy {
		n--
	}
	return n
}

// missingRecords is how many records a group of that many still waits for, beside other busy logs;
// 0: none, or there is no such log.
func (p *pacer) missingRecords(records int) int {
	if !p.on || p.otherBusyLogs() == 0 {
		return 0
	}
	if records < p.kept { // some of these needed no sync and are gone
		p.kept = 0
	}
	return max(0, p.last-(records-p.kept))
}

// wait is how long a group of that many records should still wait; 0: it should go. awaited: a
// reply waits for it.
func (p *pacer) wait(records int, awaited bool) time.Duration {
	if !p.on {
		return 0
	}
	patience := min(p.took/2, maxPatience)
	switch n := p.otherBusyLogs(); {
	case !awaited:
		patience = maxPatience
	case n > 0 && p.missingRecords(records) > 0:
		patience = min(2*time.Duration(n)*p.took, 2*maxPatience)
	case n > 0 || records >= p.last/2:
		return 0
	}
	return max(0, patience-time.Since(p.committed))
}
