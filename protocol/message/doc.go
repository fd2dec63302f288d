// Package message turns AMQP bytes into values of the engine and back: the fields of a sent message
// that the rules need, the properties that filters read, deliveries of stored messages,
// settlements, session filters, and the fields of requests. It has no connection, socket, broker or
// state, and uses neither time nor randomness: results depend only on arguments.
//
// # The way of a message
//
//   - [Inspect] checks the bytes of a transfer and finds an [engine.Message] in them (sent.go).
//     [Sent.Splice] gives an id to a message without one.
//   - [Sent.Properties] and [Properties] extract the properties that filters read (properties.go,
//     value.go).
//   - [AppendDelivery] puts the broker's sections around a stored message (delivery.go), with the
//     changes made by settlements and rules (overlay.go).
//   - [Reread] turns a stored message into the message that the next entity stores, when it is
//     moved (moved.go).
//   - [SettlementOf] reads an outcome (settlement.go), [ReadFilters] the filters of a receiver
//     (session_filter.go).
//
// Errors of type [amqp.Error] are refusals with the text for the peer. Other errors mean that
// stored bytes are damaged.
//
// Section numbers in comments without a file name are those that package servicebus cites as well.
package message
