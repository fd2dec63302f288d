package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantilesAreClose(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []time.Duration
	for range 200_000 {
		d := time.Duration(math.Exp(random.Float64() * 25)) // 1 ns to 72 s, evenly over the powers
		all = append(all, d)
		h.Record(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := all[max(0, int(q*float64(len(all)))-1)]
		got := h.Quantile(q)
		if off := math.Abs(float64(got-exact)) / float64(exact); off > 0.004 {
			t.Errorf("quantile %v: %v instead of %v, off by %.2f %%", q, got, exact, off*100)
		}
	}
	if h.Count() != uint64(len(all)) || h.Max() != all[len(all)-1] {
		t.Errorf("count %d, max %v", h.Count(), h.Max())
	}
}

func TestHistogramBucketsCoverEveryDuration(t *testing.T) {
	last := -1
	for _, d := range []time.Duration{
		math.MinInt64, -1, 0, 1, 127, 128, 255, 256, 257, 511, 512, time.Microsecond, 1023, 1024, time.Second, time.Hour, math.MaxInt64,
	} {
		b := bucket(d)
		if b < last || b >= histogramBuckets {
			t.Errorf("%d is in bucket %d, the one before in %d", d, b, last)
		}
		last = b
		if d >= 0 && d < time.Minute {
			if m := middle(b); bucket(m) != b {
				t.Errorf("%v is in bucket %d, whose middle %v is in %d", d, b, m, bucket(m))
			}
		}
	}
	for b := 1; b < histogramBuckets; b++ {
		if bucket(middle(b)) != b {
			t.Fatalf("bucket %d: its middle is in %d", b, bucket(middle(b)))
		}
	}
}

func TestHistogramMerge(t *testing.T) {
	var a, b, both Histogram
	if a.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		both.Record(d)
		if i%3 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
	}
	a.Merge(&b)
	if a != both {
		t.Error("merged differs from recorded together")
	}
}
