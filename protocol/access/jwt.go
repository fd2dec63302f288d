package access

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	bearerPrefix = "Bearer "
	maxJWT       = 16 << 10
	maxPrincipal = 128 // bytes of a subject that are stored in the audit
	// notBeforeSlack is the time by which an issuer's clock may be ahead of ours. The end of a
	// token has no slack.
	notBeforeSlack = 5 * time.Minute
)

// algorithms are the accepted signature algorithms. All use a key pair: with a shared key, or with
// none, a caller who knows the public key could sign.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// JWTOptions says which identity tokens are accepted.
type JWTOptions struct {
	// URL, as in the claim iss; its keys are found by OpenID Connect discovery
	Issuer    string
	Audiences []string // a token needs one of them in its claim aud
	// with Manage, Send, Listen, ReadHistory, ReadBodies or the names of the Azure roles; "": roles
	RolesClaim string
	Client     *http.Client
}

// JWT verifies the identity tokens of one issuer (management-api.md 5.5).
type JWT struct {
	issuer    string
	audiences []string
	roles     string
	keys      *keySet
}

// NewJWT finds the issuer's keys, within ten seconds and the context's deadline. Later the keys are
// fetched again at intervals, always from the place found here: the content of a token decides
// neither whether nor where (reliability.md S4).
func NewJWT(ctx context.Context, o JWTOptions) (*JWT, error) {
	if o.Issuer == "" || len(o.Audiences) == 0 || slices.Contains(o.Audiences, "") {
		return nil, errors.New("access: missing issuer or audience")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := limitedClient(o.Client)
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("access: discovery of %s: %w", o.Issuer, err)
	}
	var found struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&found); err != nil {
		return nil, fmt.Errorf("access: discovery of %s: %w", o.Issuer, err)
	}
	if !strings.HasPrefix(found.Keys, "https://") && !strings.HasPrefix(o.Issuer, "http://") {
		return nil, fmt.Errorf("access: discovery of %s: the address of the keys is not https", o.Issuer)
	}
	j := &JWT{issuer: o.Issuer, audiences: o.Audiences, roles: cmp.Or(o.RolesClaim, "roles"), keys: &keySet{url: found.Keys, client: client}}
	if err := j.keys.fetch(ctx, time.Now()); err != nil {
		return nil, fmt.Errorf("access: keys of %s: %w", o.Issuer, err)
	}
	return j, nil
}

// verifyBearer checks an identity token. The token is valid for the whole namespace.
func (v *Verifier) verifyBearer(token string, now time.Time) (Grant, error) {
	if n := len(bearerPrefix); len(token) >= n && strings.EqualFold(token[:n], bearerPrefix) {
		token = token[n:]
	}
	switch {
	case v.jwt != nil:
		return v.jwt.verify(token, now)
	case !v.anyBearer:
		return Grant{}, ErrUnsupported
	case !isBearer(token):
		return Grant{}, ErrMalformed
	}
	return Grant{Rule: "bearer", Rights: Manage}, nil
}

// isBearer reports whether a text has the form of a bearer token (RFC 6750 2.1).
func isBearer(token string) bool {
	if len(token) > maxJWT {
		return false
	}
	text := strings.TrimRight(token, "=")
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}

// verify checks signature, issuer, time and audience, in this order.
func (j *JWT) verify(token string, now time.Time) (Grant, error) {
	if !isBearer(token) || strings.Count(token, ".") != 2 {
		return Grant{}, ErrMalformed
	}
	j.keys.refresh(now)
	// Time and audience are checked here: the caller gives the time, and there may be several
	// audiences.
	config := &oidc.Config{SkipClientIDCheck: true, SkipExpiryCheck: true}
	for _, a := range algorithms {
		config.SupportedSigningAlgs = append(config.SupportedSigningAlgs, string(a))
	}
	t, err := oidc.NewVerifier(j.issuer, j.keys, config).Verify(context.Background(), token)
	if err != nil {
		return Grant{}, ErrSignature
	}
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return Grant{}, ErrMalformed
	}
	g := Grant{Rule: principal(t.Subject, claims), Rights: rightsOfRoles(claims[j.roles]), Expires: t.Expiry}
	var notBefore float64
	if raw, ok := claims["nbf"]; ok && json.Unmarshal(raw, &notBefore) != nil {
		return Grant{}, ErrMalformed
	}
	switch {
	case t.Expiry.IsZero() || t.Expiry.Unix() <= 0 || t.Expiry.Unix() > maxExpiry:
		return Grant{}, ErrMalformed
	case !now.Before(t.Expiry):
		return g, ErrExpired
	case float64(now.Add(notBeforeSlack).Unix()) < notBefore:
		return Grant{}, ErrSignature
	case !slices.ContainsFunc(t.Audience, func(a string) bool { return slices.Contains(j.audiences, a) }):
		return Grant{}, ErrScope
	}
	return g, nil
}

// principal returns the actor's name: the token's subject, or else the claim name.
func principal(subject string, claims map[string]json.RawMessage) string {
	if subject == "" {
		_ = json.Unmarshal(claims["name"], &subject) // not a text: the token names no actor
	}
	return strings.ToValidUTF8(subject[:min(len(subject), maxPrincipal)], "")
}

// roles maps the names that give rights to these rights: our names, and the names of the roles in
// Azure.
var roles = map[string]Rights{
	"Manage": Manage, "Send": Send, "Listen": Listen, "ReadHistory": ReadHistory, "ReadBodies": ReadBodies,
	"Azure Service Bus Data Owner": Manage, "Azure Service Bus Data Sender": Send, "Azure Service Bus Data Receiver": Listen,
}

// rightsOfRoles reads a claim with roles: a list of them, one, or several separated by spaces.
// Unknown names give no rights.
func rightsOfRoles(claim json.RawMessage) Rights {
	var list []string
	var one string
	switch {
	case json.Unmarshal(claim, &list) == nil:
	case json.Unmarshal(claim, &one) == nil:
		list = append(strings.Fields(one), one)
	}
	var r Rights
	for _, name := range list {
		r |= roles[name]
	}
	return r
}
