package servicebus

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// catalogue plays the entities' access rules, by path.
type catalogue struct {
	rules atomic.Pointer[map[string][]event.AccessRule]
}

func (c *catalogue) set(rules map[string][]event.AccessRule) { c.rules.Store(&rules) }

func (c *catalogue) of(path string) []event.AccessRule {
	entity, _, _ := strings.Cut(path, "/")
	return (*c.rules.Load())[entity]
}

func sendRule(name, key string) event.AccessRule {
	return event.AccessRule{Name: name, Primary: event.Secret(key), Rights: event.Rights{event.Send, event.Listen}}
}

// sendRefused wants that no sender may attach.
func (p *peerConn) sendRefused(handle uint32, entity string) {
	p.Helper()
	if a := p.attachSender(handle, entity); a.Target != nil {
		p.Fatalf("attached to %s", entity)
	}
	if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondUnauthorizedAccess || !strings.Contains(d.Error.Description, "'Send' claim(s) are required") {
		p.Fatalf(`%+v; want d.Error.Condition == amqp.CondUnauthorizedAccess && strings.Contains(d.Error.Description, "'Send' claim(s) are required")`, d)
	}
}

// MA-061, reliability.md S10: a token of an entity's rule works on that entity alone; a change of
// the rule detaches the links that live on it, and no others, also where the link is to another
// entity below.
func TestEntityRule(t *testing.T) {
	entities := &catalogue{}
	entities.set(map[string][]event.AccessRule{"q": {sendRule("mine", "key-of-q")}})
	bubble(t, func(o *Options) { o.Access = testAccess(func(o *access.Options) { o.EntityRules = entities.of }) }, func(b *bench) {
		p := b.dial().open()
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns", "mine", "key-of-q", time.Hour), "1"), 202, "Accepted")
		p.tokenAnswer(p.putToken("sb://ns/q2", token("sb://ns", "mine", "key-of-q", time.Hour), "2"), 401, "InvalidSignature")
		p.tokenAnswer(p.putToken("sb://ns", token("sb://ns", "mine", "key-of-q", time.Hour), "3"), 401, "InvalidSignature")
		p.putToken("sb://ns/q2", token("sb://ns/q2", "root", "root-key", time.Hour), "4")
		p.attachSender(1, "q")
		p.attachReceiver(2, "q/$deadletterqueue", amqp.SenderUnsettled)
		p.attachSender(3, "q2")
		entities.set(map[string][]event.AccessRule{"q": {sendRule("mine", "new key")}})
		// whatever changed, claims are looked at again
		b.queue("q2", func(p *event.Properties) { p.MaxDeliveryCount = 9 })
		unclaimed := 0
		for range 3 {
			d := expect[*amqp.Detach](p)
			if strings.Contains(d.Error.Description, "Code: RenewToken") {
				unclaimed++
			}
			p.write(0, &amqp.Detach{Handle: d.Handle, Closed: true}, nil)
		}
		if unclaimed != 2 {
			t.Errorf("%d links lost their claim", unclaimed)
		}
		p.sendRefused(1, "q")
		p.attachSender(3, "q2")
		p.send(3, 0, newMessage("a", "x"))
	})
}

// Management-api.md 5.2, reliability.md S10: replaced keys of the namespace end the claims and
// logins made with them.
func TestNamespaceKeysReplaced(t *testing.T) {
	verifier := testAccess(nil)
	bubble(t, func(o *Options) { o.Access = verifier }, func(b *bench) {
		p, plain := b.dial().open(), b.root()
		p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "1")
		p.putToken("sb://ns/q2", token("sb://ns/q2", "root", "root-key-2", time.Hour), "2")
		p.attachSender(1, "q")
		p.attachSender(2, "q2")
		plain.attachSender(1, "q")
		rules := slices.Clone(testRules)
		rules[0].Primary, rules[0].Secondary = "root-key-3", "root-key-2"
		verifier.SetRules(rules)
		b.server.RulesChanged()
		p.detached(amqp.CondDetachForced, "Code: RenewToken. Details: Unauthorized access. 'Send' claim(s) are required", 1)
		plain.detached(amqp.CondDetachForced, "Code: RenewToken", 1)
		p.send(2, 0, newMessage("a", "x"))
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "3"), 401, "InvalidSignature")
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key-3", time.Hour), "4"), 202, "Accepted")
		p.attachSender(1, "q")
		p.send(1, 0, newMessage("b", "x"))
		synctest.Wait()
	})
}

// S9: a path that could be read as another address, or be decoded once more, is no way to another
// entity.
func TestAudienceInDisguise(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for _, audience := range []string{"sb://ns/q/://ns/q2", "sb://ns/q/x://ns/q2", "sb://ns/q/../q2", "sb://ns/q/%2e%2e/q2", "sb://ns/q/%252e%252e/q2"} {
			p := b.dial().open()
			p.tokenAnswer(p.putToken(audience, token("sb://ns/q", "root", "root-key", time.Hour), "1"), 401, "InvalidAudience")
			p.sendRefused(1, "q2")
		}
	})
}

// WP-060: what comes as a JWT. azure-servicebus for Python sends shared access signatures as such.
func TestTokenTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		any         bool
		kind, token string
		status      int32
		text        string
	}{
		{false, "jwt", "SAS", 202, "Accepted"},
		{false, "amqp:swt", "SAS", 202, "Accepted"},
		{false, "jwt", "a.b.c", 401, "InvalidToken: Tokens of type 'jwt' are not accepted."},
		{true, "jwt", "a.b.c", 202, "Accepted"},
		{true, "amqp:jwt", "a.b.c", 202, "Accepted"},
		{true, "jwt", "a b", 401, "InvalidSignature"},
		{true, "servicebus.windows.net:sastoken", "a.b.c", 401, "InvalidSignature"},
		{true, "amqp:swt", "a.b.c", 401, "InvalidToken: Tokens of type 'amqp:swt' are not accepted."},
	} {
		bubble(t, func(o *Options) { o.Access = testAccess(func(o *access.Options) { o.AnyBearer = c.any }) }, func(b *bench) {
			p := b.dial().open()
			text := c.token
			if text == "SAS" {
				text = token("sb://ns/q", "root", "root-key", time.Hour)
			}
			p.tokenAnswer(p.putTokenOf(c.kind, "sb://ns/q", text, "1"), c.status, c.text)
		})
	}
}
