package broker

import (
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

// reliability.md F18: connections never take descriptors that the log and its reserve need,
// whatever the limit of open files.
func TestShareDescriptors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit, partitions        int
		connections, anonymous   int // settings; 0: default
		wantConnections, wantNew int // 0: refused
	}{
		{20000, 4, 0, 0, 5000, 1000},
		{6500, 4, 0, 0, 5000, 1000}, // docs/guide/settings.md says from where on
		{6400, 4, 0, 0, 4971, 1000},
		{1024, 4, 0, 0, 527, 196},
		{1024, 4, 100, 50, 100, 50},
		{1024, 64, 0, 0, 206, 89},
		{512, 64, 0, 0, 0, 0},
		{256, 4, 0, 0, 23, 28},
		{200, 4, 0, 0, 0, 0},
		{1 << 20, 4, 100_000, 1000, 100_000, 1000},
	} {
		d := shareDescriptors(test.limit)
		if err := d.reserveForLog(test.partitions); err != nil {
			if problems := (settings.Problems)(nil); test.wantConnections != 0 || !errors.As(err, &problems) {
				t.Errorf("%+v: %v; want test.wantConnections == 0 && errors.As(err, &problems)", test, err)
			}
			continue
		}
		l := d.limitConnections(settings.Limits{Connections: test.connections, Unauthenticated: test.anonymous})
		if l.Connections != test.wantConnections || l.Unauthenticated != test.wantNew {
			t.Errorf("%+v: %+v; want l.Connections == test.wantConnections && l.Unauthenticated == test.wantNew", test, l)
		}
		if all := l.Connections + servicebus.Overhang + l.Unauthenticated + d.log + reserveDescriptors + ownDescriptors; all > test.limit {
			t.Errorf("%+v: %d descriptors", test, all)
		}
	}
}
