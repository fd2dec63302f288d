// Package ledger answers questions about the past of a namespace from its logs: the life of a
// message, why messages are dead, the state at an instant and how two instants differ, when a
// condition became true, and who changed what (docs/decisions/0052).
//
// A [Ledger] reads a [Source], which has the logs: a data directory that is stopped, copied or in
// use by a broker, or the broker itself. It changes nothing, knows no clock, and keeps in memory
// only the states of the logs that a question needs.
//
// An answer is a sequence of lines, each a [Line], told as they are found: first the result, then
// the evidence, and last what to ask next. Each line has a text for people and fields for programs.
// Texts from clients are made safe to print first: see package print.
package ledger
