// Package servicebus is the AMQP side of the broker, as clients of Azure Service Bus see it. It
// owns connections, sessions, links, credit, SASL, and the $cbs and $management nodes. It turns
// transfers into engine commands, and outcomes into frames. Work that needs no connection, above
// all on the bytes of messages, is in package message. The package does not know how anything is
// stored and makes no decisions about messages: package engine does.
//
// # Ownership of state
//
// All AMQP state of a connection (sessions, links, credit, claims) belongs to the goroutine that
// has the connection's turn (turns.go). That is conn.run or, while that has nothing to do, the
// reader goroutine, which cuts the byte stream into frames. A writer goroutine writes finished
// buffers. Partitions answer through the connection's outbox, which never blocks them. The
// connection drains it when it is woken.
//
// The state of a connection is divided by subject, into types that own their fields and know little
// of it: output.go (frames to send), allowance.go and memory.go (a peer's limits and use),
// pending.go (requests that the engine has not answered), links.go, outstanding.go (unsettled
// deliveries), credit.go, deadlines.go, sasl.go, teardown.go. conn.go connects them.
//
// # The way of a message
//
//  1. reader.go reads into a reference-counted chunk and hands whole frames to the connection.
//  2. session.go counts the transfer and sender.go joins its frames. ingest.go uses package message
//     to check the message and to find the fields that the engine needs. For a message to a topic,
//     published.go keeps the parts that the filters of its subscriptions read.
//  3. batch.go puts an engine.Send in the run for its partition; a run is one Submit. The bodies
//     are still in the chunk.
//  4. The engine releases the chunk when the bodies are in its buffer, and posts a reply to
//     outbox.go when they are durable.
//  5. answers.go joins replies with contiguous delivery-ids into one disposition.
//  6. receiver.go gets deliveries the same way. pump.go reads each body when it is written
//     (ahead.go), and package message adds the broker's sections, with the changes made by
//     settlements and rules.
//
// A receiver that wants a message session takes another way: link.go reads its filter, and
// accept.go holds back the answer to its attach until the engine has a session for it, or none in
// time. Requests to a $management node are parsed in request.go, dispatched in management.go and
// carried out in manage_*.go, one file per subject.
//
// Every operation that is part of a transaction says so in its delivery state, on any link.
// transactions.go knows which transactions are open, and checks operations as far as that needs no
// partition. coordinator.go has the links on which transactions begin and end, and group.go the
// sessions and links whose messages go through another entity (docs/decisions/0037).
//
// Section numbers in comments without a file name are those of wire-protocol.md.
package servicebus
