//go:build !unix

package bench

import "time"

// ownCPU returns 0: the CPU time is unknown.
func ownCPU() time.Duration { return 0 }
