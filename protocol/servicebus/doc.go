// Package servicebus is the AMQP side of the broker: what a client of Azure Service Bus sees. It
// owns connections, sessions, links, credit, SASL, the $cbs and $management nodes, and turns
// transfers into engine commands and outcomes into frames. What needs no connection for that, the
// bytes of messages above all, is package message. It does not know how anything is stored and
// decides no rule about messages: that is package engine.
//
// # Who owns what
//
// All AMQP state of a connection, sessions, links, credit, claims, belongs to the goroutine that
// has the connection's turn (turns.go): conn.run or, where that has nothing to do, the reader
// goroutine, which cuts the byte stream into frames. A writer goroutine writes finished buffers.
// Partitions answer through the connection's outbox, which never blocks them; the connection drains
// it when it is woken.
//
// What a connection remembers and counts is cut by subject, into types that own their fields and
// know little of it: output.go (frames that are to leave), allowance.go and memory.go (what a peer
// may have, and has), pending.go (what the engine has not answered), links.go, outstanding.go
// (deliveries that have to be settled), credit.go, deadlines.go, sasl.go, teardown.go. conn.go is
// what moves them.
//
// # The way of a message
//
//  1. reader.go reads into a reference-counted chunk and hands whole frames to the connection.
//  2. session.go counts the transfer, sender.go joins its frames, ingest.go has package message
//     check it and find the fields the engine needs. Of a message to a topic published.go keeps
//     what the filters of its subscriptions look at.
//  3. batch.go puts an engine.Send in the run for its partition; a run is one Submit. The bodies
//     still stand in the chunk.
//  4. The engine releases the chunk when the bodies are in its buffer and posts a reply to
//     outbox.go when they are durable.
//  5. answers.go joins replies with contiguous delivery-ids to one disposition.
//  6. receiver.go gets deliveries the same way, pump.go reads each body at the moment it is written
//     (ahead.go), and package message puts the broker's sections around it, with what settlements
//     and rules have changed.
//
// A receiver that wants a message session goes another way: link.go has its filter read, accept.go
// holds the answer to its attach back until the engine has a session for it, or none in time.
// Requests to a $management node are parsed in request.go, dispatched in management.go and carried
// out in manage_*.go, one file a theme.
//
// Every operation that is part of a transaction says so in its delivery state, on any link. Which
// transactions there are, and what can be said of an operation without asking its partition, is in
// transactions.go; coordinator.go has the links on which they begin and end, group.go the sessions
// and links whose messages go through another entity (docs/decisions/0037).
//
// Section numbers in comments without a file name are those of wire-protocol.md.
package servicebus
