package broker

import (
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/host"
)

// A Recovered summarizes the state of the data directory at the start.
type Recovered struct {
	New      bool          // the directory was empty
	Clean    bool          // the last run ended with Close
	Messages int           // live messages of all queues
	Locks    int           // locked messages
	Bytes    int64         // bytes of the log that were read and verified
	CutBytes int64         // unacknowledged bytes at the ends of the logs that were set aside
	Refused  []error       // errors of the partitions that are not served
	Took     time.Duration // from opening the directory to being ready to serve
}

func recovered(partitions []host.PartitionRecovery, took time.Duration) Recovered {
	sum := Recovered{New: true, Clean: true, Took: took}
	for _, p := range partitions {
		if p.Err != nil {
			sum.Refused = append(sum.Refused, p.Err)
		}
		sum.New = sum.New && p.Err == nil && p.Log.Frames == 0
		sum.Clean = sum.Clean && (p.Err != nil || p.Log.Clean)
		sum.Messages += p.Messages
		sum.Locks += p.Locks
		sum.Bytes += p.Log.Bytes
		sum.CutBytes += p.Log.CutBytes
	}
	return sum
}

// String returns one line for people.
func (r Recovered) String() string {
	if r.New {
		return "a new data directory"
	}
	end := "the last run ended cleanly"
	if !r.Clean {
		end = "the last run did not end cleanly"
	}
	text := fmt.Sprintf("%d messages (%d locked) from %s of log in %s; %s", r.Messages, r.Locks, size(r.Bytes), r.Took.Round(time.Millisecond), end)
	if r.CutBytes > 0 {
		text += fmt.Sprintf("; %s of unacknowledged data at the end were set aside", size(r.CutBytes))
	}
	return text
}

// size formats a number of bytes.
func size(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d B", n)
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/(unit*unit))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(unit*unit*unit))
}
