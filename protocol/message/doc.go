// Package message turns bytes of AMQP into values of the engine and back: the fields that the rules
// need of a message that is sent, what filters see of it, a stored message as it is delivered,
// settlements, session filters, and the fields of requests. It has no connection, socket, broker or
// state, and asks for neither time nor randomness: what it returns depends on what it is given.
//
// # A message comes and goes
//
//   - [Inspect] checks the bytes of a transfer and finds an [engine.Message] in them (sent.go). A
//     message without an id is given one by [Sent.Splice].
//   - [Sent.Properties] and [Properties] take out what filters look at (properties.go, value.go).
//   - [AppendDelivery] puts the broker's sections around a stored message (delivery.go), with what
//     settlements and rules have changed (overlay.go).
//   - [Reread] makes of a stored message what the next entity is asked to store, when it is moved
//     (moved.go).
//   - [SettlementOf] reads an outcome (settlement.go), [ReadFilters] what a receiver asks for
//     (session_filter.go).
//
// Errors of type [amqp.Error] are refusals: they say what the peer is told. Other errors say that
// stored bytes are damaged.
//
// Section numbers in comments without a file name are those that package servicebus cites, too.
package message
