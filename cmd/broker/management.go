package broker

import (
	"log/slog"
	"net/http"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/atom"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/protocol/ledger"
)

// management returns the HTTP handler. It serves the administration of entities, as in Service Bus,
// and the broker's own requests, whose paths are never paths of entities.
func (s *Server) management() http.Handler {
	tier := engine.Standard
	if s.settings.Tier == settings.Premium {
		tier = engine.Premium
	}
	callers := &caller.Authenticator{Access: s.access, Failures: s.failures, Logger: slog.Default()}
	entities := atom.New(atom.Options{
		Admin: s.engine, Callers: callers, Namespace: namespaceName, Tier: tier, Created: s.store.Namespace().Created,
		Now: s.engine.Now, Logger: slog.Default(),
	})
	own := ledger.New(ledger.Options{Operations: s.engine, Backups: s.engine, Erasures: s.engine, Histories: s.engine, Live: s.engine, Receivers: s.amqp.Receivers, Callers: callers, Now: s.engine.Now, Logger: slog.Default(),
		Past: s.store, Memory: s.memory})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ledger.Owns(r.URL.Path) {
			own.ServeHTTP(w, r)
			return
		}
		entities.ServeHTTP(w, r)
	})
}
