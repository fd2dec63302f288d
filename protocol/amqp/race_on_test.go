//go:build race

package amqp

// raceDetector is set if the race detector is on, which makes a sync.Pool drop a part of its items.
const raceDetector = true
