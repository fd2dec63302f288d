//go:build race

package amqp

// raceDetector tells that the race detector is on: a sync.Pool then throws a part of what is put
// into it away.
const raceDetector = true
