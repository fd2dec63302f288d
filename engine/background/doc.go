// Package background does the work of a broker that no client asks for. Each job is a type with a
// method Run for one goroutine. It states what it needs of its broker in an interface or in
// options; package host provides it.
//
//   - [Retention] deletes history that no policy keeps: whole files from the front of a log
//     (history.go; history_plan.go decides), and unneeded bodies (history_bodies.go, compact.go,
//     live_bodies.go).
//   - [Eraser] erases bodies on request.
//   - [Scrub] reads the logs again to find damage.
//   - [Courier] moves messages that are in transfer in one log to their destination entities. Each
//     partition that serves has one.
//   - [Idle] deletes entities that have been unused for long.
//
// A job keeps no lasting state: everything it finds out is in the logs and in the catalogue. No
// loop waits for a job, and no job decides the outcome of a command.
package background
