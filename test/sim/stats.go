package sim

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Stats counts what a run, or many, came across.
type Stats struct {
	Seeds, Operations, Replies, Refusals int64
	Frames, Records, Events              int64
	Deliveries                           int64
	Kills, PowerLosses, CleanStops       int64
	CrashesInCalls, CrashesInRecovery    int64
	Recoveries, Cuts, CutBytes           int64
	RecordsLost                          int64
	IOErrors, FailedRuns                 int64
	Checkpoints                          int64
	Flips, FlipsRefused, FlipsHarmless   int64
	FlipsLate, RefusedByRule             int64
	StateCompared, ReplaysCompared       int64
	Ambiguous                            int64
	VirtualMillis                        int64
	Reruns                               int64
	Kinds                                [32]int64 // events by kind, as found in the logs at the end
}

// Add adds the counters of another run.
func (s *Stats) Add(o Stats) {
	a, b := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	for i := range a.NumField() {
		if f := a.Field(i); f.CanInt() {
			f.SetInt(f.Int() + b.Field(i).Int())
		}
	}
	for k, n := range o.Kinds {
		s.Kinds[k] += n
	}
}

func (s Stats) String() string {
	var out strings.Builder
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).CanInt() {
			fmt.Fprintf(&out, "%s %d, ", v.Type().Field(i).Name, v.Field(i).Int())
		}
	}
	out.WriteString("by kind:")
	for k, n := range s.Kinds {
		if n > 0 {
			fmt.Fprintf(&out, " %v %d", event.Kind(k), n)
		}
	}
	return out.String()
}
