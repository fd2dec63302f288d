package ledger

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// By begins with the name of the key, unchanged, so that a condition can test it; a name that a
// client chose is never shown as one.
func TestWho(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		origin event.Origin
		want   string
	}{
		{event.Origin{Principal: "app", ContainerID: "worker-1", RemoteAddress: "10.0.4.17:50412", Product: "azsdk-go/1.8"}, "app (worker-1) at 10.0.4.17:50412 azsdk-go/1.8"},
		{event.Origin{Principal: "app"}, "app"},
		{event.Origin{Principal: "my app", RemoteAddress: "10.0.4.17:1"}, `"my app" at 10.0.4.17:1`},
		{event.Origin{ContainerID: "RootManageSharedAccessKey", RemoteAddress: "10.0.4.17:1"}, "(RootManageSh…) at 10.0.4.17:1"},
		{event.Origin{}, "origin 7"},
	} {
		b := &book{}
		b.origins.Define(&event.OriginDefined{ID: 7, Origin: c.origin})
		if got := b.describe(7); got != c.want {
			t.Errorf("%+v: %q, want %q", c.origin, got, c.want)
		}
	}
}
