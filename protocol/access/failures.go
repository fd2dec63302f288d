package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failureWindow is the time in which the free failures of an address are restored, and the time
	// for which an address is refused after too many failures.
	failureWindow = time.Minute
	// failureDelay is the delay of each failed login after the free ones.
	failureDelay = time.Second
	// manyAddresses is the number of remembered addresses above which old ones are removed.
	manyAddresses = 10_000
)

// Failures counts the failed logins of each address, over all protocols (reliability.md S13). It
// may be used concurrently.
type Failures struct {
	free, most int // failures without delay; failures before the address is refused

	mu     sync.Mutex // guards byHost
	byHost map[string]addressFailures
}

type addressFailures struct {
	left  *rate.Limiter // failures before the address is refused
	until time.Time     // end of the refusal; zero: not refused
}

// NewFailures returns a Failures with a bucket of most failures for each address, which regains
// free of them in a minute. The first free failures cost nothing and later ones are delayed. An
// address with an empty bucket is refused for a minute.
func NewFailures(free, most int) *Failures {
	return &Failures{free: free, most: most, byHost: map[string]addressFailures{}}
}

// Refused reports whether an address has failed to log in too often.
func (f *Failures) Refused(host string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.byHost[host].until)
}

// Failed counts a failure. It returns the time by which the answer has to be delayed, and whether
// the address is refused from now on.
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
	// after a refusal an address begins again
	if !known || !h.until.IsZero() && !now.Before(h.until) {
		h = addressFailures{left: rate.NewLimiter(rate.Limit(float64(min(f.free, f.most))/failureWindow.Seconds()), f.most)}
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
