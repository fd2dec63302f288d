package bench

import (
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets whose width grows with the duration, as HDR histograms
// do: 128 buckets per power of two, so a quantile is off by at most 0.4 %. Up to 255 ns the buckets
// are exact. Its memory is fixed. The zero Histogram is empty; it is not safe for concurrent use:
// workers have one each, which are merged at the end.
//
//	duration v, e = max(0, bits(v) − 8)  →  bucket 128·e + v>>e
type Histogram struct {
	counts [histogramBuckets]uint64
	count  uint64
	max    time.Duration
}

const (
	halfBuckets      = 128
	maxExponent      = 33 // 2^(33+8) ns are 36 minutes; longer durations count as that
	histogramBuckets = halfBuckets*maxExponent + 2*halfBuckets
)

// Record counts one duration. A negative duration counts as zero.
func (h *Histogram) Record(d time.Duration) {
	h.counts[bucket(d)]++
	h.count++
	h.max = max(h.max, d)
}

func bucket(d time.Duration) int {
	if d < 0 {
		return 0
	}
	v := uint64(d)
	e := max(0, bits.Len64(v)-8)
	if e > maxExponent {
		return histogramBuckets - 1
	}
	return halfBuckets*e + int(v>>e)
}

// middle returns the duration that a bucket represents.
func middle(bucket int) time.Duration {
	if bucket < 2*halfBuckets {
		return time.Duration(bucket)
	}
	e := bucket/halfBuckets - 1
	low := uint64(bucket%halfBuckets+halfBuckets) << e
	return time.Duration(low + (uint64(1)<<e)/2)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.max = max(h.max, other.max)
}

// Count returns the number of recorded durations.
func (h *Histogram) Count() uint64 { return h.count }

// Max returns the longest recorded duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that a share q, from 0 to 1, of all recorded durations does not
// exceed; 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(q * float64(h.count))
	rank = min(max(rank, 1), h.count)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

// A Latency is the summary of a histogram for people.
type Latency struct {
	P50  time.Duration `json:"p50Nanoseconds"`
	P99  time.Duration `json:"p99Nanoseconds"`
	P999 time.Duration `json:"p999Nanoseconds"`
	Max  time.Duration `json:"maxNanoseconds"`
}

// Latency returns the usual quantiles.
func (h *Histogram) Latency() Latency {
	return Latency{P50: h.Quantile(0.5), P99: h.Quantile(0.99), P999: h.Quantile(0.999), Max: h.max}
}
