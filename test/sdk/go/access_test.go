package sdkgo

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

// TestRights shows WP-049, WP-057 and WP-058: what keys with one right may do, and that a rule
// nobody made has none.
func TestRights(t *testing.T) {
	t.Parallel()
	broker := harness.Start(t, harness.Queue("orders"), harness.Rule("listener", "one key", settings.Listen), harness.Rule("producer", "another key", settings.Send))
	b := newBus(t, place{connectionString: broker.ConnectionString()}, "orders", noRetries)

	producer := b.connectWith(broker.ConnectionStringFor("producer", "another key"))
	b.must(b.senderOf(producer).SendMessage(b.patient(), text("a"), nil))
	b.wantError("unauthorized", b.receiveError(b.receiverOf(producer, peekLock)), "'Listen' claim(s) are required")

	listener := b.connectWith(broker.ConnectionStringFor("listener", "one key"))
	r := b.receiverOf(listener, peekLock)
	b.complete(r, b.one(r, "a"))
	b.wantError("unauthorized", b.senderOf(listener).SendMessage(b.patient(), text("b"), nil), "'Send' claim(s) are required")

	nobody := b.connectWith(broker.ConnectionStringFor("NoSuchRule", "SAS_KEY_VALUE"))
	b.wantError("unauthorized", b.receiveError(b.receiverOf(nobody, peekLock)))
	b.empty(peekLock)
}
