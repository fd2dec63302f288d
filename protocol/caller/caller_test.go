package caller

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// MA-163: name and key of a rule of the namespace are as good as a token, over TLS or on loopback;
// MA-164: elsewhere they are refused before anything is looked up, and wrong ones count as bad
// tokens do.
func TestBasic(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	rules := []event.AccessRule{
		{Name: "ops", Primary: "first:key", Secondary: "second", Rights: event.Rights{event.Manage}},
		{Name: "reader", Primary: "r", Rights: event.Rights{event.Listen}},
	}
	d := &Authenticator{Failures: access.NewFailures(100, 3), Access: access.New(access.Options{
		Rules: rules, EntityRules: func(string) []event.AccessRule { return []event.AccessRule{{Name: "own", Primary: "k"}} }})}
	loopback, elsewhere := &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}
	for _, c := range []struct {
		name      string
		rule, key string
		to        net.Addr
		tls       bool
		want      error
		rights    access.Rights
	}{
		{"primary key", "ops", "first:key", loopback, false, nil, access.Manage},
		{"secondary key, another case", "OPS", "second", elsewhere, true, nil, access.Manage},
		{"fewer rights", "reader", "r", loopback, false, nil, access.Listen},
		{"no TLS", "ops", "second", elsewhere, false, ErrPlain, 0},
		{"no address", "ops", "second", nil, false, ErrPlain, 0},
		{"wrong key", "ops", "r", loopback, false, access.ErrSignature, 0},
		{"no key", "reader", "", loopback, false, access.ErrSignature, 0},
		{"rule of an entity", "own", "k", loopback, false, access.ErrSignature, 0},
		{"too many wrong ones", "ops", "second", loopback, false, ErrAddress, 0},
	} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, c.to), http.MethodGet, "/orders", nil)
		r.SetBasicAuth(c.rule, c.key)
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		g, err := d.Login(r, "orders", now)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || c.rights != 0 && !g.Rights.Has(c.rights) {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, g.Rights, err, c.rights, c.want)
		}
		if err == nil && !d.Access.Allows(g, "orders", c.rights, now) {
			t.Errorf("%s: the grant allows nothing", c.name)
		}
	}
}
