// Package sim runs the whole broker below the protocol in one goroutine, on a disk that can lose
// power and a clock that is not real, and compares it step by step with package model
// (reliability.md 4, T1). One 64-bit seed decides everything; a failing seed is a complete report.
//
//	go test ./test/sim                                       // 300 seeds, a few seconds
//	go test ./test/sim -run TestSim -seeds 100000 -first 1   // a range of seeds
//	go test ./test/sim -run TestSim -duration 2h -first 7000000
//	go test ./test/sim -run TestSim -seed 4711 -v            // one seed, with a readable trace
//	make mutants SUITES=./test/sim                           // the simulation must find bugs that are planted
//
// # What is real
//
// engine.Partition, loop.Loop, host.Clock, packages index and index/replay, and package log with
// recovery, checkpoints and chapters (Options.Manual), on faultfs. What package engine does with
// goroutines, timers and the mailbox is replaced: the scheduler calls Turn and Landed,
// ManualWriter.Work and ManualWriter.Tick, in any order and with any delay. A sync takes time
// (crank.go): between its beginning and its end loops decide and write, and the process may die or
// the power fail. Time passes in jumps of any length, some of them to the very moment at which a
// loop wants to be woken.
//
// # A run
//
// [swarm] draws the options of a seed: few queues with short locks, windows and times to live, with
// sessions, duplicate detection or neither, few session and message ids, small limits, segments
// from 1 KiB, checkpoints from one byte on, operations that are frequent or never happen, faults or
// none. Half of the worlds have topics, with two to four subscriptions each and rules from a small
// pool (rules.go), some of which fail. Then the scheduler does one thing at a time: a client asks
// (client.go), a loop takes requests, a writer writes or syncs, time goes on, state is compared, or
// something breaks (crash.go): the process dies now or inside a call of the file system, the power
// fails, a write or sync returns an error and the process ends, the process stops cleanly, the wall
// clock is set. A dead process is born again from the image it left, maybe after a long time, maybe
// to die again inside recovery. Queues, topics, subscriptions and rules are changed, deleted and
// created again, in the steps in which the broker does it: durable on partition 0, then in force
// where the entity lives (admin.go), and anything may happen in between. In some worlds entities
// that nobody uses delete themselves, and nobody comes for long times (idle.go); in others messages
// have headers of almost the size that is allowed (header.go). A third of the worlds have two to
// four logs between which messages move (moves.go), some of them sent through an entity (via.go),
// and in half of these a log is damaged now and then so that a start refuses it, for a while
// (refused.go). In a third of the worlds the disk has little room or hangs, and memory is short,
// now and then (faults.go). In two fifths of the worlds history is given back while all this goes
// on, by policies that change: bases are made, files before them removed, and bodies dropped that
// no state needs (space.go). Half of the starts end what the last run left in several small frames,
// and wait for the disk in between. In the damage mode bits flip or ends are cut off while nothing
// runs. At the end the faults stop and a client drains everything: every session, every dead-letter
// queue, and the deferred messages by their numbers.
//
// # The oracle
//
//  1. The model decides what each command comes to before the reply is looked at. The shadow
//     (shadow.go, session_waiters.go) knows only when replies may leave and when they must, and so
//     when a frame has to be written for one, whose credit and whose wait for a session come first,
//     when expired messages are looked for, and when the loop must be woken. Records are counted:
//     the broker writes one where the model has one.
//
//  2. Prefix. Every record has a number. After a start the log holds n records: n must reach every
//     record that a reply stood for (locks and renewals only if just the process died) and must not
//     pass what was written. The model goes back to n, and index, locks, sessions and the order in
//     which they wait, duplicate history, counters, catalogue and the bytes of all bodies and
//     session states must be equal to it. Which subscriptions get copies, and what is changed in
//     them, is decided in the model by the rules in force when a message has its turn; all copies
//     of a send are one record. An entity deletes itself when the model says so, and not before.
//
//  3. History (history.go). What clients saw is checked once more without the model: bytes, one
//     number per send, done is done, one lock at a time on messages and sessions, fencing, counts,
//     limits, expiry, schedule, order in a session, its state as a register, deferred only by
//     number, one message per id and window, numbers never reused, nothing of an entity that was
//     deleted, copies in the order of their topic (copies.go).
//
//  4. Replay. With and without checkpoints the log gives the same encoded state, which is that of
//     the running index.
//
//  5. Time. However the wall clock is set, broker time goes on with the monotonic clock, at most 5
//     % faster or slower, and never back: so no lock ends early or late, and nothing expires that
//     should not (F15, F16). A start whose clock is far off is refused; the clock is put right, or
//     the log is believed, or the clock, and then every deadline moves with it, once in each log,
//     however often starts die on the way.
//
//  6. Liveness. With a client that receives and completes, every message that can be received ends
//     in bounded virtual time. The loop sleeps exactly until there is something to do.
//
//  7. Facts (facts.go). What was refused has a record, of the token, the message and the reason
//     that the model says, and refused sends are counted; each run is there, with how the one
//     before ended. No reply waits for any of it, and a state without them would be the same.
//
//  8. Moves (docs/decisions/0042). What couriers ask for is checked against rules, and what becomes
//     of each message is counted (moved.go).
//
//  9. Fences (fences.go). A partition that fails, or is fenced in order, ends by itself, and its
//     clients never learn what came of their requests; recovered beside the others it has a prefix
//     of what was decided, with all that was acknowledged, and what moves to it and from it arrives
//     once.
//
//  10. Space (space.go). None of the above is told that history is given back, and all of it holds:
//     states after a start are those of a log that lost nothing, and every body that a state needs
//     can be read. What a policy keeps is there: each record and each body that is to go is
//     checked against the policies once more, independently. After a stop in order a thorough look
//     finds nothing wrong, and no file that a manifest does not name.
//
//  11. One seed in a hundred runs twice and must leave the same trace hash.
//
//  12. The past (answers.go, in TestAnswers). Random questions of package ledger to what a world
//     has left have the answers of the model.
//
// Violations are named by the invariants of reliability.md 5, those of facts and of space by the
// words "facts" and "space". Operations are counted by what they met (stats.go): a cell of
// operation and feature that stays empty over 10,000 seeds fails the test.
//
// # What is allowed
//
// Damage may be refused: it is then put right and the start is tried again. Damage to the newest
// commits, after a power loss or in several places, may pass for a torn tail as long as the
// progress note is honoured; the run ends there and is counted as ambiguous. A refusal that
// log-format.md 5.5 announces (pages dropped by a failed sync, no fault note) is counted too.
package sim
