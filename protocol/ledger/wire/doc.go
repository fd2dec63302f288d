// Package wire is the JSON of the broker's own requests, /$ledger/v1, for both ends: package ledger
// answers with it, the administration client reads it. docs/guide/ledger-api.md shows all of it.
//
// What it reads comes from outside: it is bounded by [MaxBody], and whoever decodes gets all of it
// or an error that says what is wrong.
package wire
