// Package excerpt copies a part of the logs of a data directory into a small directory that all
// tools and a broker can open: ledgerbus slice (docs/decisions/0059). It reads the original in the
// same way as questions about the past do, and keeps addresses, numbers and times.
package excerpt
