// Package sim runs the whole broker below the protocol in one goroutine, on a disk that can lose power and a clock that is
// not real, and compares it step by step with package model (reliability.md 4, T1). One 64-bit seed decides everything; a
// failing seed is a complete report.
//
//	go test ./test/sim                                       // 300 seeds, a few seconds
//	go test ./test/sim -run TestSim -seeds 100000 -first 1   // a range of seeds
//	go test ./test/sim -run TestSim -duration 2h -first 7000000
//	go test ./test/sim -run TestSim -seed 4711 -v            // one seed, with a readable trace
//	go test -tags mutants ./test/sim -run TestPlantedBugs    // the simulation must find bugs that are planted
//
// # What is real
//
// engine.Loop, engine.Partition, engine.Replay, engine.Clock, package index, and package log with recovery, checkpoints
// and chapters (Options.Manual), on faultfs. What package engine does with goroutines, timers and the mailbox is replaced:
// the scheduler calls Turn and Landed, Writer.Work and Writer.Tick, in any order and with any delay.
//
// # A run
//
// [swarm] draws the options of a seed: few queues with short locks and small limits, segments from 1 KiB, checkpoints from
// one byte on, operations that are frequent or never happen, faults or none. Then the scheduler does one thing at a time: a
// client asks (client.go), a loop takes requests, a writer writes or syncs, time goes on, state is compared, or something
// breaks (crash.go): the process dies now or inside a call of the file system, the power fails, a write or sync returns an
// error and the process ends, the process stops cleanly. A dead process is born again from the image it left, maybe to
// die again inside recovery. In the damage mode bits flip or ends are cut off while nothing runs. At the end the faults
// stop and a client drains everything.
//
// # The oracle
//
//  1. The model decides what each command comes to before the reply is looked at. The shadow (shadow.go) knows only when
//     replies may leave and whose credit comes first. Records are counted: the broker writes one where the model has one.
//  2. Prefix. Every record has a number. After a start the log holds n records: n must reach every record that a reply
//     stood for (locks and renewals only if just the process died) and must not pass what was written. The model goes back to
//     n, and index, locks, counters, catalogue and the bytes of all bodies must be equal to it.
//  3. History (client.go). What clients saw is checked once more without the model: bytes, one number per send, done is
//     done, one lock at a time, fencing, counts, limits, expiry, numbers never reused.
//  4. Replay. With and without checkpoints the log gives the same encoded state, which is that of the running index.
//  5. Liveness. With a client that receives and completes, every message that can be received ends in bounded virtual time.
//  6. One seed in a hundred runs twice and must leave the same trace hash.
//
// Violations are named by the invariants of reliability.md 5.
//
// # What is allowed
//
// Damage may be refused: it is then put right and the start is tried again. Damage to the newest commits, after a power
// loss or in several places, may pass for a torn tail as long as the progress note is honoured; the run ends there and is
// counted as ambiguous. A refusal that log-format.md 5.5 announces (pages dropped by a failed sync, no fault note) is
// counted too. Deferred messages stay where they are, because nothing can receive them yet.
package sim
