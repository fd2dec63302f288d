// Package excerpt cuts a part out of the logs of a data directory, into a small one that all tools
// and a broker can open: ledgerbus slice (docs/decisions/0059). It reads the original as any
// question about the past does, and keeps addresses, numbers and times as they are.
package excerpt
