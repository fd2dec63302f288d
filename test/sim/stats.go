package sim

import (
	"fmt"
	"reflect"
	"strings"
)

// Stats counts what a run, or many, came across.
type Stats struct {
	Seeds, Operations, Replies, Refusals int64
	Frames, Records                      int64
	Deliveries                           int64
	Kills, PowerLosses, CleanStops       int64
	CrashesInCalls, CrashesInRecovery    int64
	Recoveries, Cuts, CutBytes           int64
	RecordsLost                          int64
	IOErrors, FailedRuns                 int64
	Checkpoints                          int64
	Flips, FlipsRefused, FlipsHarmless   int64
	FlipsAmbiguous, RefusedByRule        int64
	StateCompared, ReplaysCompared       int64
	Ambiguous                            int64
	VirtualMillis                        int64
	Reruns                               int64
}

// Add adds the counters of another run.
func (s *Stats) Add(o Stats) {
	a, b := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	for i := range a.NumField() {
		a.Field(i).SetInt(a.Field(i).Int() + b.Field(i).Int())
	}
}

func (s Stats) String() string {
	var out strings.Builder
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if i > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, "%s %d", v.Type().Field(i).Name, v.Field(i).Int())
	}
	return out.String()
}
