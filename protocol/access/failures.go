package access

import (
	"sync"
	"time"
)

const (
	// failureWindow is how long failed logins of an address are counted together, and how long it is refused after too many.
	failureWindow = time.Minute
	// failureDelay is what each failed login costs once there have been some.
	failureDelay = time.Second
	// manyAddresses is how many addresses are remembered before old ones are looked for.
	manyAddresses = 10_000
)

// Failures counts the failed logins of addresses, over every way in (reliability.md S13). It may be used concurrently.
type Failures struct {
	free, most int // failures within a minute: those that cost nothing; those before the address is refused

	mu     sync.Mutex // guards byHost
	byHost map[string]failed
}

type failed struct {
	count int
	since time.Time
}

// NewFailures counts so that the first free failures of an address within a minute cost nothing, later ones wait, and after
// most of them the address is refused for a minute.
func NewFailures(free, most int) *Failures {
	return &Failures{free: free, most: most, byHost: map[string]failed{}}
}

// Refused reports whether an address has failed to log in too often.
func (f *Failures) Refused(host string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.byHost[host]
	return h.count >= f.most && now.Sub(h.since) < failureWindow
}

// Failed counts a failure. It returns how long the answer has to be held back, and whether the address is refused from now on: then the minute
// begins anew.
func (f *Failures) Failed(host string, now time.Time) (wait time.Duration, refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.byHost) > manyAddresses {
		for name, h := range f.byHost {
			if now.Sub(h.since) >= failureWindow {
				delete(f.byHost, name)
			}
		}
	}
	h := f.byHost[host]
	if now.Sub(h.since) >= failureWindow {
		h = failed{since: now}
	}
	if h.count++; h.count == f.most {
		h.since, refused = now, true
	}
	f.byHost[host] = h
	if h.count > f.free {
		wait = failureDelay
	}
	return wait, refused
}
