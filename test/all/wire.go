package main

// wireForms are the scenarios in which the JavaScript and the Python SDK put something else on the
// wire than those of Go and Java, which run all scenarios for each change: messages and their
// types, requests to a management node, filters of sessions, credit, ends of links, ways to
// connect, and entities in XML.
var wireForms = []string{
	"send-all-properties", "send-property-types", "send-raw", "send-batch", "send-batch-1mib", "send-large",
	"receive-and-delete", "lock-renew", "settle-four-ways", "settle-properties", "dead-letter-reason", "expiry-milliseconds",
	"schedule-property", "schedule-call", "schedule-cancel", "defer-receive", "defer-settle", "peek-states", "batch-delete",
	"session-accept", "session-next", "session-renew", "session-state", "session-list", "session-peek",
	"credit-drain-on-close", "credit-prefetch", "credit-streaming",
	"connection-tls", "connection-websocket", "connection-kill-between-calls",
	"rule-sql", "rule-correlation", "rule-action", "rule-round-trip", "rule-manager",
	"admin-queue", "admin-topic", "admin-subscription", "admin-lists", "admin-keys",
}
