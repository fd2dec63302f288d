package rows

import "time"

// Strip shows when a namespace was busy and what was changed, for a time slider. It is read from
// the logs, also from those of a directory.
type Strip struct {
	From    time.Time     `json:"from"`
	To      time.Time     `json:"to"`
	Step    int64         `json:"step"` // seconds of a bucket
	Buckets []StripBucket `json:"buckets"`
	Marks   []StripMark   `json:"marks"` // the newest Max changes, oldest first
	More    int           `json:"more"`  // older changes that are left out
	// when the history of all partitions begins; nil: nothing was removed
	Horizon *time.Time `json:"horizon,omitempty"`
	Missing []int      `json:"missing,omitempty"` // partitions that could not be read
}

// StripBucket is a bucket of time.
type StripBucket struct {
	At time.Time `json:"at"` // its beginning
	// bytes of records of all partitions; nil: unknown, because history was removed
	Bytes *uint64 `json:"bytes"`
	// how often broker time passed the bucket, because a clock was set; nil: once
	Passes *int `json:"passes,omitempty"`
}

// StripMark is a change, in the words of a row of audit.
type StripMark struct {
	At     time.Time `json:"at"`
	Type   string    `json:"type"`
	Entity string    `json:"entity,omitempty"`
	By     string    `json:"by,omitempty"`
	Place  string    `json:"place"`
	Text   string    `json:"text"`
}
