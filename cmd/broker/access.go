package broker

import (
	"context"
	"errors"
	"strings"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// authorise makes the verifier that decides who may do what, on every way in. An issuer of identity
// tokens that does not answer is a problem of the settings.
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

// namespaceRules translates access rules into the words of the log.
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

// maxResource bounds the paths whose entity is looked for: an entity, a subscription, a rule and
// the words between them.
const maxResource = 512

// entityRules are the access rules of the queue or topic that a resource path lies in: of the
// longest path that is one. A subscription has none of its own (management-api.md 5.1).
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

// Access decides who may do what: the one authorisation of AMQP and HTTP (reliability.md S10).
func (s *Server) Access() *access.Verifier { return s.access }

// Reload takes over, while the broker runs, the access rules of new settings and a certificate
// whose files have changed. Claims and links that live on keys that are gone end (management-api.md
// 5.2). After an error nothing has changed. Other settings need a restart.
func (s *Server) Reload(next settings.Settings) error {
	if next.DevelopmentKey() && !s.settings.DevelopmentKey() {
		return errors.New("access rules: the emulator's well-known key cannot be added while the broker runs")
	}
	if s.certificates != nil { // first, for the rules cannot fail
		if err := s.certificates.reload(); err != nil {
			return err
		}
	}
	s.access.SetRules(namespaceRules(next.Access))
	s.amqp.RulesChanged()
	return nil
}
