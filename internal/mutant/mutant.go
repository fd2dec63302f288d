// Package mutant holds the switches of the planted bugs (reliability.md 6). In an ordinary build every switch is a
// constant false and the compiler removes what it guards. Built with the tag "mutants", the environment variable
// LEDGERBUS_MUTANT names the one bug that is switched on; the test suites must then fail.
package mutant

// Bug names a planted bug of reliability.md 6.
type Bug string

const (
	AckBeforeSync       Bug = "M1"  // a durable ticket completes before the sync
	TruncateAlways      Bug = "M3"  // recovery cuts the log at the first bad frame, whatever it is
	NoPayloadChecksum   Bug = "M4"  // payload checksums are not compared
	ShowBeforeDurable   Bug = "M11" // outcomes leave before their frame is durable
	StaleToken          Bug = "M13" // a settlement with a token that is not the current one is accepted
	ReuseSequenceNumber Bug = "M15" // after recovery sequence numbers start behind the newest live message
)
