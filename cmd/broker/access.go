package broker

import (
	"context"
	"errors"
	"strings"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// authorise creates the verifier for all entry points. An issuer of identity tokens that does not
// answer is a problem of the settings.
func (s *Server) authorise(ctx context.Context) error {
	o := access.Options{
		Rules:       namespaceRules(s.settings.Access),
		EntityRules: s.entityRules,
		Hosts:       append([]string{namespaceName, namespaceName + ".servicebus.windows.net"}, s.hosts()...),
		Development: s.settings.Mode == settings.Development,
		AnyBearer:   s.settings.Identity.AnyBearer,
	}
	if id := s.settings.Identity; id.Issuer != "" {
		var err error
		if o.JWT, err = access.NewJWT(ctx, access.JWTOptions{Issuer: id.Issuer, Audiences: id.Audiences, RolesClaim: id.RolesClaim}); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return settings.Problems{{Where: "jwt.issuer", Text: err.Error()}}
		}
	}
	s.access = access.New(o)
	return nil
}

// namespaceRules converts access rules into their form in the log.
func namespaceRules(list []settings.AccessRule) []event.AccessRule {
	rights := map[settings.Right]event.Right{settings.Manage: event.Manage, settings.Send: event.Send, settings.Listen: event.Listen,
		settings.ReadHistory: access.HistoryReader, settings.ReadBodies: access.BodyReader}
	var rules []event.AccessRule
	for _, from := range list {
		rule := event.AccessRule{Name: from.Name, Primary: event.Secret(from.Primary.Reveal()), Secondary: event.Secret(from.Secondary.Reveal())}
		for _, right := range from.Rights {
			rule.Rights = append(rule.Rights, rights[right])
		}
		rules = append(rules, rule)
	}
	return rules
}

// maxResource is the longest path that is searched for an entity: an entity, a subscription, a rule
// and the words between them.
const maxResource = 512

// entityRules returns the access rules of the queue or topic that a resource path belongs to, by
// the longest matching path. A subscription has no access rules (management-api.md 5.1).
func (s *Server) entityRules(path string) []event.AccessRule {
	if len(path) > maxResource {
		return nil
	}
	for path != "" {
		if t, err := s.engine.Resolve(path); err == nil && t.Entity.Kind != event.Subscription {
			return t.Entity.Properties.AccessRules
		}
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
	}
	return nil
}

// Access returns the verifier that authorises AMQP and HTTP requests (reliability.md S10).
func (s *Server) Access() *access.Verifier { return s.access }

// Reload applies new access rules and a changed certificate while the broker runs. Claims and links
// of removed keys end (management-api.md 5.2). After an error nothing has changed. Other settings
// need a restart.
func (s *Server) Reload(next settings.Settings) error {
	if next.DevelopmentKey() && !s.settings.DevelopmentKey() {
		return errors.New("access rules: the emulator's well-known key cannot be added while the broker runs")
	}
	if s.certificates != nil { // first, because the rules cannot fail
		if err := s.certificates.reload(); err != nil {
			return err
		}
	}
	s.access.SetRules(namespaceRules(next.Access))
	s.amqp.RulesChanged()
	return nil
}
