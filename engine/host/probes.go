package host

import (
	"fmt"
	"time"
)

// Live returns an error if a loop is stuck: see [loop.Loop.Stuck]. A full disk stops no loop. Live
// does not wait.
func (ps *partitions) Live() error {
	for i, l := range ps.loops() {
		if l == nil {
			continue
		}
		if d := l.Stuck(); d > 0 {
			return fmt.Errorf("engine: the loop of partition %d has been stuck for %v", i, d.Round(time.Second))
		}
	}
	return nil
}

// Ready returns an error if partition 0, which has the catalogue, does not serve: without it no
// client can work.
func (ps *partitions) Ready() error {
	if ps.absent(0) {
		return fmt.Errorf("engine: partition 0 is %v", ps.status(0).State)
	}
	return nil
}
