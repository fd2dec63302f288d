package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Errors of [Verifier.Verify]. The last two are returned only for a token that was signed with a
// key, so that a peer without a key learns nothing from them.
var (
	// ErrMalformed: the token cannot be parsed.
	ErrMalformed = errors.New("access: token malformed")
	// ErrUnsupported: this kind of token is not accepted.
	ErrUnsupported = errors.New("access: tokens of this kind are not accepted")
	// ErrSignature: the token has an unknown rule or issuer, or a wrong signature.
	ErrSignature = errors.New("access: token has an unknown signer or a wrong signature")
	// ErrExpired: the token was valid earlier; the grant returned with it says until when.
	ErrExpired = errors.New("access: token expired")
	// ErrScope: the token is valid for another resource or audience.
	ErrScope = errors.New("access: token does not cover the audience")
)

// Options configures a [Verifier]. The zero value accepts nothing.
type Options struct {
	// Rules are the access rules of the namespace. The caller adds the well-known development key
	// to them, and only in development mode (reliability.md S2).
	Rules []event.AccessRule
	// EntityRules returns the access rules of the queue or topic that contains a resource path, or
	// nil if none does. The path is clean: lower-case, decoded, without outer slashes. It is called
	// for every token and every use of a token that such a rule signed, from many goroutines. A nil
	// EntityRules means that entities have no rules.
	EntityRules func(path string) []event.AccessRule
	// Hosts are the host names that tokens may be made for, without port (reliability.md S9). In
	// development mode any host is accepted.
	Hosts []string
	// Development accepts tokens made for any host name.
	Development bool
	// JWT accepts the identity tokens of an issuer; nil: none are accepted.
	JWT *JWT
	// AnyBearer gives all rights to every token that has the form of a bearer token
	// (management-api.md 1.7). Without Development, or with JWT, it has no effect.
	AnyBearer bool
}

// A Verifier checks tokens against the rules of a namespace and its entities.
type Verifier struct {
	// set once in New
	entityRules func(path string) []event.AccessRule
	hosts       []string
	anyHost     bool
	jwt         *JWT
	anyBearer   bool

	rules atomic.Pointer[[]event.AccessRule]
}

// New returns a verifier.
func New(o Options) *Verifier {
	v := &Verifier{entityRules: o.EntityRules, anyHost: o.Development, jwt: o.JWT, anyBearer: o.AnyBearer && o.Development && o.JWT == nil}
	if v.entityRules == nil {
		v.entityRules = func(string) []event.AccessRule { return nil }
	}
	for _, h := range o.Hosts {
		v.hosts = append(v.hosts, hostName(h))
	}
	v.SetRules(o.Rules)
	return v
}

// SetRules replaces the rules of the namespace. From now on it refuses tokens of removed rules or
// keys, and grants made for them no longer hold; the holder of a grant has to check it again
// (reliability.md S10).
func (v *Verifier) SetRules(rules []event.AccessRule) {
	rules = slices.Clone(rules)
	v.rules.Store(&rules)
}

// A Grant is the access that a valid token gives.
type Grant struct {
	Path string // of the audience: clean, "" for the namespace
	// the access rule, or the subject of an identity token: the actor, for the audit
	// (reliability.md S14)
	Rule    string
	Rights  Rights    // may be none
	Expires time.Time // zero: does not expire

	level level
	key   *event.Secret // the key that signed; a pointer, so that no formatter shows it
}

// level says where the rule behind a grant is defined.
type level uint8

const (
	ofIdentity  level = iota // no rule: an issuer vouches for it
	ofNamespace              // holds for every path that sr covers
	ofEntity                 // holds below the entity that has the rule
)

// Verify checks a token for an audience: a URL, or a bare path (wire-protocol.md 2.4, 2.5;
// reliability.md S5 to S9). The token is a shared access signature, or an identity token with or
// without "Bearer " before it. Verify checks the signature before the expiry, and the expiry before
// the scope, so a peer without a key learns nothing. An error wraps one of the errors above. With
// [ErrExpired] the grant's Expires says until when the token was valid.
func (v *Verifier) Verify(token, audience string, now time.Time) (Grant, error) {
	r, ok := v.Resource(audience)
	return v.verify(token, r.path, ok, now)
}

// VerifyPath is Verify for a resource given by its decoded path, such as that of an HTTP request.
func (v *Verifier) VerifyPath(token, path string, now time.Time) (Grant, error) {
	path, ok := CleanPath(path)
	return v.verify(token, path, ok, now)
}

func (v *Verifier) verify(token, path string, known bool, now time.Time) (Grant, error) {
	var g Grant
	var err error
	if strings.HasPrefix(token, SASPrefix) {
		g, err = v.verifySAS(token, path, known, now)
	} else {
		g, err = v.verifyBearer(token, now)
	}
	switch {
	case err != nil:
		return Grant{Expires: g.Expires}, err
	case !known:
		return Grant{}, ErrScope
	}
	g.Path = path
	return g, nil
}

func (v *Verifier) verifySAS(token, path string, known bool, now time.Time) (Grant, error) {
	t, err := parseSAS(token)
	if err != nil {
		return Grant{}, err
	}
	if !known {
		path = "" // where no entity has rules
	}
	g, ok := v.signer(&t, path)
	if !ok {
		return Grant{}, ErrSignature
	}
	if g.Expires, err = t.expires(); err != nil {
		return Grant{}, err
	}
	if !now.Before(g.Expires) {
		return g, ErrExpired
	}
	resource, err := url.PathUnescape(t.resource)
	if err != nil {
		return Grant{}, ErrMalformed
	}
	if scope, ok := v.Resource(resource); !ok || !covers(scope.path, path) {
		return Grant{}, ErrScope
	}
	return g, nil
}

// signer finds the rule whose key made the signature. A rule of the entity comes before one of the
// namespace. It always tries four keys: an unknown name costs as much as a wrong key
// (reliability.md S6).
func (v *Verifier) signer(t *sasToken, path string) (Grant, bool) {
	var g Grant
	found := false
	for i, rules := range [...][]event.AccessRule{v.entityRules(path), *v.rules.Load()} {
		rule := named(rules, t.rule)
		for _, key := range [...]event.Secret{rule.Primary, rule.Secondary} {
			if t.signedBy(key) && key != "" && !found {
				found = true
				g = Grant{Rule: rule.Name, Rights: rightsOf(rule.Rights), level: [...]level{ofEntity, ofNamespace}[i], key: &key}
			}
		}
	}
	return g, found
}

// named returns the rule with a name, compared without regard to case (management-api.md 1.6), or
// the zero rule if there is none.
func named(rules []event.AccessRule, name string) event.AccessRule {
	var rule event.AccessRule
	for _, r := range rules {
		if strings.EqualFold(r.Name, name) {
			rule = r
		}
	}
	return rule
}

// HasKeys reports whether the namespace has a key: without one no login with name and key is
// possible.
func (v *Verifier) HasKeys() bool {
	return slices.ContainsFunc(*v.rules.Load(), func(r event.AccessRule) bool { return r.Primary != "" || r.Secondary != "" })
}

// Plain checks the user name and password of SASL PLAIN: the name and key of a rule of the
// namespace (wire-protocol.md 1.5).
func (v *Verifier) Plain(name, key string) (Grant, error) {
	rule := named(*v.rules.Load(), name)
	given := sha256.Sum256([]byte(key))
	found := false
	for _, k := range [...]event.Secret{rule.Primary, rule.Secondary} {
		want := sha256.Sum256([]byte(k.Reveal()))
		if hmac.Equal(want[:], given[:]) && k != "" {
			found = true
		}
	}
	if !found {
		return Grant{}, ErrSignature
	}
	secret := event.Secret(key)
	return Grant{Rule: rule.Name, Rights: rightsOf(rule.Rights), level: ofNamespace, key: &secret}, nil
}

// Allows reports whether a grant allows an operation at a path. AMQP and HTTP call it at every
// attach and every request (reliability.md S10). The path is clean.
func (v *Verifier) Allows(g Grant, path string, want Rights, now time.Time) bool {
	return want != 0 && g.Rights.Has(want) && covers(g.Path, path) && !g.Expired(now) && v.inForce(g, path)
}

// Expired reports whether the token has expired.
func (g Grant) Expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// OfNamespace reports whether the grant comes from the namespace, not from the rule of one entity.
func (g Grant) OfNamespace() bool { return g.level != ofEntity }

// inForce looks up the rule behind a grant again. A rule of an entity is looked up at the path
// where the grant is used: below one entity there may be another, with its own rules
// (management-api.md 5.1).
func (v *Verifier) inForce(g Grant, path string) bool {
	var rules []event.AccessRule
	switch g.level {
	case ofIdentity:
		return true
	case ofNamespace:
		rules = *v.rules.Load()
	case ofEntity:
		rules = v.entityRules(path)
	}
	rule := named(rules, g.Rule)
	return g.key != nil && *g.key != "" && (rule.Primary == *g.key || rule.Secondary == *g.key) && rightsOf(rule.Rights).Has(g.Rights)
}
