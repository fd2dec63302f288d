package ledger

import (
	"net/http"
	"sync"
	"time"
)

const (
	// slowAfter is how long the reader of an answer may let it wait, in all, before it has to give
	// way to another question.
	slowAfter = 10 * time.Second
	// lastTime is how long the end of an answer may take that is over or has to give way.
	lastTime = time.Second
)

var errSlow = refuse(http.StatusServiceUnavailable, "The answer was read so slowly that it gave way to another question; ask again, and read faster.")

// answers are those that are being sent. Readers that take nothing, or next to nothing, keep nobody
// from asking: see giveWay.
type answers struct {
	mu   sync.Mutex // guards what follows
	sent map[*answering]bool
}

func (s *answers) begin(a *answering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil {
		s.sent = map[*answering]bool{}
	}
	s.sent[a] = true
}

func (s *answers) end(a *answering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, a)
}

// giveWay ends the answer that has waited longest for its reader, if that is more than slowAfter,
// and takes its slot.
func (s *answers) giveWay(places slots) bool {
	slowest := s.slowest()
	if slowest == nil {
		return false
	}
	slowest.giveWay()
	wait := time.NewTimer(lastTime)
	defer wait.Stop()
	select {
	case places <- struct{}{}:
		return true
	case <-wait.C:
		return false
	}
}

func (s *answers) slowest() (slowest *answering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := slowAfter
	for a := range s.sent {
		if waited := a.reader.all(); waited > longest {
			slowest, longest = a, waited
		}
	}
	return slowest
}

// patience is how long an answer has waited for its reader.
type patience struct {
	mu     sync.Mutex // guards what follows, and the deadlines of the answer's connection
	waited time.Duration
	since  time.Time // of the wait that lasts; zero: none does
}

func (p *patience) all() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return p.waited
	}
	return p.waited + time.Since(p.since)
}

// patiently lets the reader of the answer take something that is sent to it.
func (a *answering) patiently(send func() error) error {
	p := &a.reader
	p.mu.Lock()
	p.since = time.Now()
	if a.ctx.Err() == nil {
		a.takes(stallTime)
	} else {
		a.takes(lastTime)
	}
	p.mu.Unlock()
	err := send()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited += time.Since(p.since)
	p.since = time.Time{}
	a.takes(questionTime + time.Minute) // there may be nothing to say for long
	return err
}

// giveWay ends the answer now, whatever its reader does.
func (a *answering) giveWay() {
	a.reader.mu.Lock()
	defer a.reader.mu.Unlock()
	a.stop(errSlow)
	a.takes(0)
}
