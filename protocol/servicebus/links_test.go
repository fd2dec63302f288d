package servicebus

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Links are found by name and direction, those to $cbs by their direction, and holders of a message
// session by the session.
func TestLinks(t *testing.T) {
	t.Parallel()
	table := newLinks()
	entity := engine.Target{Entity: &engine.Entity{ID: 7}}
	sends := &link{name: "a", sender: &sender{}}
	holds := &link{name: "a", target: entity, receiver: &receiver{grant: &engine.SessionGrant{ID: "s", Token: event.LockToken{3}}}}
	tokens := &link{name: "b", at: address{cbs: true}, receiver: &receiver{}}
	for _, l := range []*link{sends, holds, tokens} {
		table.add(l)
	}
	table.hold(holds)
	if table.named("a", amqp.RoleSender) != sends || table.named("a", amqp.RoleReceiver) != holds || table.named("b", amqp.RoleSender) != nil {
		t.Error("links are not found by name and direction")
	}
	if *table.token(amqp.RoleReceiver) != tokens || *table.token(amqp.RoleSender) != nil {
		t.Error("the link to $cbs is not found by its direction")
	}
	if table.holder(messageSession{7, "s"}) != holds || table.holder(messageSession{8, "s"}) != nil {
		t.Error("the holder of a message session is not found by its id and entity")
	}
	if held := table.locks(7); len(held) != 1 || held[0] != holds.receiver.grant.Token || len(table.locks(8)) > 0 {
		t.Errorf("the locks held are %v", held)
	}
	table.release(holds)
	for _, l := range []*link{sends, holds, tokens} {
		table.remove(l)
	}
	if table.attached != 0 || len(table.names) > 0 || len(table.holders) > 0 || table.tokens != [2]*link{} {
		t.Errorf("%+v is left", table)
	}
}
