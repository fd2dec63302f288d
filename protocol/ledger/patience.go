package ledger

import (
	"net/http"
	"sync"
	"time"
)

const (
	// slowAfter is the total time that an answer may wait for its reader before another question
	// may take its place.
	slowAfter = 10 * time.Second
	// shortTime bounds the total time that the answer to a short question may wait for its reader.
	// shortPatience is the part of it after which the answer is ended. The rest is for a write that
	// has begun then, and for two writes of the end.
	shortTime     = 30 * time.Second
	shortPatience = shortTime - 3*lastTime
	// lastTime bounds the time for sending the end of an answer that is complete or gave way.
	lastTime = time.Second
)

var errSlow = refuse(http.StatusServiceUnavailable, "The answer was read too slowly and was ended in favour of another question; ask again and read faster.")
var errImpatient = refuse(http.StatusServiceUnavailable, "The answer to a short question must be read within %v; ask again and read faster.", shortTime)

// answers holds the answers that are being sent. A reader that takes little or nothing must not
// keep others from asking: see giveWay.
type answers struct {
	mu   sync.Mutex // guards what follows
	sent map[*lineAnswer]bool
}

func (s *answers) begin(a *lineAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil {
		s.sent = map[*lineAnswer]bool{}
	}
	s.sent[a] = true
}

func (s *answers) end(a *lineAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, a)
}

// giveWay ends the answer that has waited longest for its reader, among those with one of the
// slots, and takes its slot, if that wait was longer than slowAfter.
func (s *answers) giveWay(places slots) bool {
	slowest := s.slowest(places)
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

func (s *answers) slowest(places slots) (slowest *lineAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := slowAfter
	for a := range s.sent {
		if waited := a.reader.all(); a.places == places && waited > longest {
			slowest, longest = a, waited
		}
	}
	return slowest
}

// patience measures the time that an answer has waited for its reader.
type patience struct {
	mu     sync.Mutex // guards what follows, and the deadlines of the answer's connection
	waited time.Duration
	since  time.Time // start of the current wait; zero: none
}

func (p *patience) all() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return p.waited
	}
	return p.waited + time.Since(p.since)
}

// patiently calls send and counts the time until the reader of the answer has taken the bytes.
func (a *lineAnswer) patiently(send func() error) error {
	p := &a.reader
	p.mu.Lock()
	p.since = time.Now()
	switch {
	case a.ctx.Err() != nil:
		a.extendDeadlines(lastTime)
	case a.short:
		a.extendDeadlines(max(lastTime, shortPatience-p.waited))
	default:
		a.extendDeadlines(stallTime)
	}
	p.mu.Unlock()
	err := send()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited += time.Since(p.since)
	p.since = time.Time{}
	switch {
	case a.stop == nil:
	case a.short && p.waited >= shortPatience:
		a.stop(errImpatient)
	case err != nil: // nothing of what is still found can be sent
		a.stop(err)
	}
	// a long time may pass before there is something to send
	a.extendDeadlines(questionTime + time.Minute)
	return err
}

// giveWay ends the answer now, whatever its reader does.
func (a *lineAnswer) giveWay() {
	a.reader.mu.Lock()
	defer a.reader.mu.Unlock()
	a.stop(errSlow)
	a.extendDeadlines(0)
}
