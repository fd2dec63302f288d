// Package wire has the JSON of the broker's own requests, /$ledger/v1, for both ends: package
// ledger writes the answers and the administration client reads them. docs/guide/ledger-api.md
// shows all of it.
//
// Input comes from outside, so it is bounded by [MaxBody]. A decoder returns all of it, or an error
// that says what is wrong.
package wire
