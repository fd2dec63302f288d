package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failureWindow is the time in which the failures that cost nothing are given back, and how
	// long an address is refused after too many.
	failureWindow = time.Minute
	// failureDelay is what each failed login costs once there have been some.
	failureDelay = time.Second
	// manyAddresses is how many addresses are remembered before old ones are looked for.
	manyAddresses = 10_000
)

// Failures counts the failed logins of addresses, over every way in (reliability.md S13). It may be
// used concurrently.
type Failures struct {
	free, most int // failures: those that cost nothing; those before the address is refused

	mu     sync.Mutex // guards byHost
	byHost map[string]failed
}

type failed struct {
	left  *rate.Limiter // failures before the address is refused
	until time.Time     // it is refused; zero: it is not
}

// NewFailures gives each address a bucket of most failures, and free of them back in a minute. The
// first free cost nothing, later ones wait, and who has none left is refused for a minute.
func NewFailures(free, most int) *Failures {
	return &Failures{free: free, most: most, byHost: map[string]failed{}}
}

// Refused reports whether an address has failed to log in too often.
func (f *Failures) Refused(host string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.byHost[host].until)
}

// Failed counts a failure. It returns how long the answer has to be held back, and whether the
// address is refused from now on.
func (f *Failures) Failed(host string, now time.Time) (wait time.Duration, refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.byHost) > manyAddresses {
		for name, h := range f.byHost {
			if !now.Before(h.until) && h.left.TokensAt(now) >= float64(f.most) {
				delete(f.byHost, name)
			}
		}
	}
	h, known := f.byHost[host]
	if !known || !h.until.IsZero() && !now.Before(h.until) { // who was refused begins anew
		h = failed{left: rate.NewLimiter(rate.Limit(float64(min(f.free, f.most))/failureWindow.Seconds()), f.most)}
	}
	h.left.AllowN(now, 1)
	left := h.left.TokensAt(now)
	if refused = left < 1 && h.until.IsZero(); refused {
		h.until = now.Add(failureWindow)
	}
	f.byHost[host] = h
	if left < float64(f.most-f.free) {
		wait = failureDelay
	}
	return wait, refused
}
