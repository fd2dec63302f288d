// Package sdkgo talks to the broker with the unmodified Go SDK of Azure Service Bus. What it shows is the table of
// scenarios_test.go; every line of it names the statements of semantics.md (SM) and wire-protocol.md (WP) it is about.
package sdkgo
