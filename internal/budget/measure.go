package budget

import (
	"context"
	"runtime"
	"runtime/metrics"
)

// inUse returns a function that returns how many bytes were in use at the last collection,
// including memory that the collector does not manage.
func inUse() func() int64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/os-stacks:bytes"},
		{Name: "/memory/classes/metadata/mcache/inuse:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
		{Name: "/memory/classes/other:bytes"},
	}
	return func() (bytes int64) {
		metrics.Read(samples)
		for _, s := range samples {
			bytes += int64(s.Value.Uint64())
		}
		return bytes
	}
}

// collections returns a channel that receives, after each garbage collection until ctx ends, how
// many bytes shares had then. A value that was not received is replaced by the next.
func (b *Budget) collections(ctx context.Context) <-chan int64 {
	c := make(chan int64, 1)
	type marker struct{ _ *int } // is garbage in every collection
	var again func(*marker)
	again = func(m *marker) {
		select {
		case <-c:
		default:
		}
		c <- b.shareBytes()
		if ctx.Err() == nil {
			runtime.SetFinalizer(m, again)
		}
	}
	runtime.SetFinalizer(new(marker), again)
	return c
}
