package broker

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/protocol/atom"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/protocol/ledger"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// storedReader returns a reader of stored messages for answers about the present.
func storedReader() present.Reader { return new(message.StoredReader) }

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
	live := present.New(s.engine.Present(), time.Now).ReadWith(storedReader)
	s.serving.Go(func() { live.Watch(s.closing) })
	own := ledger.New(ledger.Options{Operations: s.engine, Backups: s.engine, Erasures: s.engine, Histories: s.engine, Live: s.engine, Receivers: s.amqp.Receivers, Callers: callers, Now: s.engine.Now, Logger: slog.Default(),
		Present: live, Running: s.running(), Past: s.store, Memory: s.memory})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ledger.Owns(r.URL.Path) {
			own.ServeHTTP(w, r)
			return
		}
		entities.ServeHTTP(w, r)
	})
}

// running returns the function that tells what the broker knows of itself.
func (s *Server) running() func() rows.Running {
	started := s.engine.Now().Std().UTC()
	return func() rows.Running {
		r := rows.Running{Version: program.Version(), StartedAt: started, Connections: s.amqp.Connections(), Conditions: []rows.Condition{}}
		if used, limit := s.memory.Usage(); limit > 0 {
			r.Memory = &rows.Memory{Used: used, Limit: limit}
		}
		for _, c := range s.conditions() {
			shown := rows.Condition{State: c.State, Cause: c.Cause}
			if c.Partition >= 0 {
				shown.Partition = &c.Partition
			}
			if since := c.Since.UTC(); !c.Since.IsZero() {
				shown.Since = &since
			}
			r.Conditions = append(r.Conditions, shown)
		}
		return r
	}
}
