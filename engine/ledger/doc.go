// Package ledger answers questions about the past of a namespace from its logs: the life of a
// message, why messages are dead, the state at an instant and how two differ, when something became
// true, who changed what (docs/decisions/0052).
//
// A [Ledger] asks a [Source], which has the logs: a data directory, stopped, copied or beside its
// broker, or the broker itself. It changes nothing, knows no clock, and holds no more in memory
// than the states of the logs that a question needs.
//
// An answer is a sequence of lines, each a [Line], told as it is found: what is the case first,
// evidence below it, what to ask next last. Each line has a text for people and fields for
// programs. Nothing in either came from a client as it stands: see package print.
package ledger
