package loop

import (
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
)

// maxMail bounds the requests that wait for one partition. A full mailbox makes connections wait,
// and so stop reading.
const maxMail = 16 << 10

// mailbox passes requests to a loop in batches.
type mailbox struct {
	wake chan struct{} // one slot: there is something to take

	mu     sync.Mutex // guards the fields below
	room   sync.Cond  // broadcast when mail is taken, and at the end
	mail   []engine.Request
	least  int  // number of sends that wake the loop; fewer of them wait; 0: one send wakes it
	woken  bool // the loop was told of the mail
	closed bool
}

func newMailbox() *mailbox {
	m := &mailbox{wake: make(chan struct{}, 1)}
	m.room.L = &m.mu
	return m
}

// put waits for room and appends. It returns false if the mailbox is closed and nothing was taken.
func (m *mailbox) put(requests []engine.Request) bool {
	m.mu.Lock()
	for !m.closed && m.full(len(requests)) {
		m.room.Wait()
	}
	open := !m.closed
	wakes := open && m.add(requests)
	m.mu.Unlock()
	if wakes {
		m.poke()
	}
	return open
}

// offer is put for callers that do not wait: if there is no room it takes nothing. open reports
// whether the mailbox is open.
func (m *mailbox) offer(requests []engine.Request) (took, open bool) {
	m.mu.Lock()
	open = !m.closed
	took = open && !m.full(len(requests))
	wakes := took && m.add(requests)
	m.mu.Unlock()
	if wakes {
		m.poke()
	}
	return took, open
}

// full reports whether that many requests have to wait for room. The caller holds m.mu.
func (m *mailbox) full(n int) bool { return len(m.mail) > 0 && len(m.mail)+n > maxMail }

// add appends, and reports whether the loop has to be told. The caller holds m.mu.
func (m *mailbox) add(requests []engine.Request) (wakes bool) {
	m.mail = append(m.mail, requests...)
	if m.woken || len(m.mail) < m.least && onlySends(requests) {
		return false
	}
	m.woken = true
	return true
}

func (m *mailbox) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns the waiting requests, and keeps an empty slice to fill next.
func (m *mailbox) take(empty []engine.Request) []engine.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.least, m.woken = 0, false
	if len(m.mail) == 0 {
		return empty
	}
	mail := m.mail
	m.mail = empty
	m.room.Broadcast()
	return mail
}

// gather makes sends wait, until the next take, while there are fewer than that many of them. Any
// other request wakes the loop.
func (m *mailbox) gather(least int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.least = min(least, maxMail/4)
}

// onlySends reports whether all requests are sends.
func onlySends(requests []engine.Request) bool {
	for i := range requests {
		if _, ok := requests[i].Command.(*engine.Send); !ok {
			return false
		}
	}
	return true
}

// close refuses further requests and returns the waiting ones.
func (m *mailbox) close() []engine.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	mail := m.mail
	m.mail, m.closed = nil, true
	m.room.Broadcast()
	return mail
}

// redirector takes over requests that a partition has not processed. It returns the requests that
// no other partition can carry out; nil: no other can.
type redirector func([]engine.Request) []engine.Request

func (o redirector) take(requests []engine.Request) []engine.Request {
	if o == nil || len(requests) == 0 {
		return requests
	}
	return o(requests)
}
