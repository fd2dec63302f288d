// Package model says what a partition of queues, topics and subscriptions must do, in maps and
// slices, as the documents and the specification have it (semantics.md 3 to 9, 11, 14 to 16). It is
// the oracle of test/sim: slow, small, and written without looking at how the broker does it. It
// shares no code with the engine or the index, and imports nothing of ours.
//
// A [Partition] is told what is asked, with the time of the decision, and answers what must come of
// it. Every decision that changes something is one record, counted like the records of the
// partition's log, so that after a crash [Partition.Rewind] takes the model back to the prefix of
// the log that survived.
//
// Some things are taken from the broker's own documents because the specification leaves them open:
// a lock that ended by time is noticed when its token is used or at the next multiple of [Grain];
// locks that are noticed at one time end in the order in which they ran out; a refusal that noticed
// one is a record; expired messages at the head of a queue are cleared away [MaxFront] in a record;
// whatever is asked of an entity is a use of it, but of rules only what changes one by itself; the
// next available session is the one that has been available longest; the limit of a message's size
// leaves room for the message-id that the broker adds; cancelling is a kind of sending, as far as
// the status goes, and setting a session's state and renewing a lock go on while receiving is
// disabled; a scheduled message of a topic is read back before it is published, so it waits until
// it is written, and what is due with it waits, too; a message's header counts where the broker
// knows its size, which is when it is sent and when it is settled.
package model
