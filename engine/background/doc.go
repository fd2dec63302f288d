// Package background is what a broker does by itself, besides serving requests. Each job is a type
// with a method Run for one goroutine, and says in an interface or in options what it needs of its
// broker, which package host gives it:
//
//   - [Retention] gives back the space of history that no policy keeps: whole files from the front
//     of a log (history.go, what may go: history_plan.go), and bodies that nobody needs any more
//     (history_bodies.go, compact.go, live_bodies.go).
//   - [Eraser] erases bodies on request.
//   - [Scrub] reads the logs again, for rot.
//   - [Courier] takes messages that are in transfer in one log to the entities they are for. There
//     is one for each partition that serves.
//   - [Idle] deletes entities that nobody has used for long.
//
// A job keeps nothing that has to last: what it finds out is in the logs and in the catalogue. No
// loop waits for one, and none decides what a command comes to.
package background
