//go:build !unix

package bench

import "time"

// ownCPU is unknown here.
func ownCPU() time.Duration { return 0 }
