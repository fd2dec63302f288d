package loop

import (
	"sync/atomic"
	"time"
)

// maxPatience is the longest that a frame waits for more records, whatever the disk's pace. While
// other logs are busy it is twice that.
const maxPatience = 2 * time.Millisecond

// largeGroup is the least number of records in a group for which waiting for as many is worth it: a
// sync takes as much processor time as some 30 messages.
const largeGroup = 8

// pacer keeps frames at about equal size (docs/decisions/0003). When a large frame is durable, its
// replies leave, and the few requests that came in the meantime would make a small frame. That
// frame would keep the disk busy while all other requests wait for the next one: large and small
// frames would alternate, and with them disk and clients. So a frame much smaller than the one
// before waits a moment for the requests that follow those replies. A lone sender never waits: all
// its frames have the same size.
//
// A group that no reply waits for, such as one of settlements without answers, is handed on at most
// every maxPatience, because each sync takes processor time from others.
//
// If several logs are busy (docs/decisions/0066), each gets a part of the requests, and would sync
// its part as often as one log syncs all of them. So a large group waits until as many records have
// come as the group before had. It waits at most for twice the time that the syncs of the others
// take one after the other. All logs together then sync about as often as one.
//
// The zero value never waits. A simulation uses that, because a pacer depends on the real clock.
type pacer struct {
	on        bool
	logs      *BusyLogs     // busy logs of the namespace; nil: there is no other log
	busy      bool          // counted in logs
	last      int           // records in the last group that became durable
	kept      int           // records that came while it was synced
	sealed    time.Time     // when it was handed over
	took      time.Duration // time until it was durable
	committed time.Time
}

// BusyLogs counts the logs of a namespace that have something on its way to the disk.
type BusyLogs struct{ n atomic.Int32 }

func (p *pacer) seal(records int) {
	if p.on {
		p.last, p.sealed = records, time.Now()
		p.count(true)
	}
}

// land notes that a group is durable, and how many records wait for the next sync. busy: there will
// be one.
func (p *pacer) land(records int, busy bool) {
	if p.on {
		p.committed = time.Now()
		p.took, p.kept = p.committed.Sub(p.sealed), records
		p.count(busy)
	}
}

// end makes the pacer stop waiting.
func (p *pacer) end() {
	p.count(false)
	p.on = false
}

// count adds the log to the busy ones or removes it.
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

// otherBusyLogs returns how many other logs are busy if the last group was large; else 0, because
// they do not matter.
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

// missingRecords returns how many more records a group of that many waits for while other logs are
// busy; 0: none, or no other log is busy.
func (p *pacer) missingRecords(records int) int {
	if !p.on || p.otherBusyLogs() == 0 {
		return 0
	}
	if records < p.kept { // some of them needed no sync and are no longer counted
		p.kept = 0
	}
	return max(0, p.last-(records-p.kept))
}

// wait returns how long a group of that many records should still wait; 0: it should not. awaited:
// a reply waits for it.
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
