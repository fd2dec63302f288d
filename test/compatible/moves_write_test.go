package compatible

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A chain with a topic in it, a queue whose destination refuses what it is given, and dead letters
// that move.
const movingEntities = `{"UserConfig": {"Namespaces": [{"Name": "compatible", "Queues": [
	{"Name": "orders"}, {"Name": "out"}, {"Name": "morgue"}, {"Name": "grouped", "Properties": {"RequiresSession": true}},
	{"Name": "wrong", "Properties": {"ForwardTo": "grouped"}},
	{"Name": "mortal", "Properties": {"ForwardDeadLetteredMessagesTo": "morgue"}},
	{"Name": "in", "Properties": {"ForwardTo": "hub"}}, {"Name": "brief", "Properties": {"ForwardTo": "out"}}],
	"Topics": [{"Name": "hub", "Subscriptions": [{"Name": "all", "Properties": {"ForwardTo": "out"}}]}]}]}}`

// movesAndTransactions writes with a build that knows both. It asks the engine for the
// transactions, because no client in Go has any.
func movesAndTransactions(t *testing.T, binary, data string) map[string]int {
	live(t, binary, data, movingEntities, []begin{{(*author).moves, false}, {(*author).endsMoves, true}})
	b := open(t, data)
	b.transacts()
	b.close()
	return live(t, binary, data, "", []begin{{(*author).waits, false}})
}

// moves sends through the chain, lets one message fail, and a dead one move.
func (a *author) moves() {
	for i := range 10 {
		a.send("in", message(fmt.Sprint("m", i)))
	}
	a.send("brief", message("b0"), message("b1"))
	a.send("wrong", message("without a session"))
	a.send("orders", message("o0"), message("o1"), message("o2"))
	a.dies("first")
	deleting := azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
	a.receive(a.receiver("out", deleting), 12)
	a.receive(a.receiver("wrong", azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete, SubQueue: azservicebus.SubQueueDeadLetter}), 1)
	a.receive(a.receiver("morgue", deleting), 1)
	a.send("in", message("last"))
	a.receive(a.receiver("out", azservicebus.ReceiverOptions{}), 1)
}

// endsMoves deletes a queue whose messages are elsewhere, and a queue that dead letters move to:
// the next one waits.
func (a *author) endsMoves() {
	c := a.administer()
	defer c.Close()
	a.must(c.Delete(a.ctx, event.Queue, "brief"))
	morgue, err := c.Get(a.ctx, event.Queue, "morgue")
	a.must(err)
	morgue.Properties.Status = event.Disabled
	_, err = c.Update(a.ctx, morgue)
	a.must(err)
	a.dies("second")
}

// dies sends a message that is dead-lettered.
func (a *author) dies(id string) {
	a.send("mortal", message(id))
	r := a.receiver("mortal", azservicebus.ReceiverOptions{})
	a.must(r.DeadLetterMessage(a.ctx, a.receive(r, 1)[0], nil))
	a.must(r.Close(a.ctx))
}

// waits leaves what waits as it is.
func (a *author) waits() {
	c := a.administer()
	defer c.Close()
	_, err := c.Get(a.ctx, event.Queue, "mortal")
	a.must(err)
}

// transacts commits a transaction that has something of everything, and rolls another back.
func (b *broker) transacts() {
	b.t.Helper()
	orders, out := b.resolve("orders"), b.resolve("out")
	slice := orders.Slice(0)
	const body = "\x00Ss\xc0\x05\x01\xa1\x02tx" // properties with a message-id alone
	message := func(id string) []engine.Message { return []engine.Message{{ID: []byte(id), Body: []byte(body)}} }
	r := &engine.Receiver{Entity: orders.Entity, Slice: slice, Sink: b.replies}
	b.Submit(orders.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 1}}})
	given := b.wait(1)[0].Delivery()
	later := message("later")
	later[0].ScheduledFor = b.Now().Add(1000 * time.Hour)
	one, other := event.TransactionID{1}, event.TransactionID{2}
	stage := func(t event.TransactionID, operation engine.Command) engine.Command {
		return &engine.Stage{Transaction: t, Operation: operation, Bytes: 100}
	}
	b.ask(orders,
		stage(one, &engine.Settle{Entity: orders.Entity, Slice: slice, Token: given.Token, Outcome: engine.Complete}),
		stage(one, &engine.Send{Entity: orders.Entity, Slice: slice, Messages: message("committed")}),
		stage(one, &engine.Send{Entity: orders.Entity, Slice: slice, Messages: later, Numbers: true}),
		stage(one, &engine.Send{Entity: orders.Entity, Slice: slice, Messages: message("handed over"), Destination: out.Entity}),
		stage(other, &engine.Send{Entity: orders.Entity, Slice: slice, Messages: message("rolled back")}),
		&engine.Commit{Transaction: one, Slice: slice},
		&engine.Rollback{Transaction: other, Slice: slice, Cause: event.AbortRolledBack})
	b.ask(orders, &engine.Detach{Receiver: r})
	r = &engine.Receiver{Entity: out.Entity, Slice: out.Slice(0), Mode: engine.ReceiveAndDelete, Sink: b.replies}
	b.Submit(out.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 1}}})
	b.wait(1)
	b.ask(out, &engine.Detach{Receiver: r})
}
