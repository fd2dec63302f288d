package settings

import (
	"errors"
	"strings"
	"testing"
)

// Reliability.md S1, S2: a broker that other machines can reach needs TLS and an operator's key. A
// flag waives each of them, and on a public address only together with a further one.
func TestReach(t *testing.T) {
	t.Parallel()
	own := environment("LEDGERBUS_ACCESS_RULES", `[{name: a, rights: [Manage], primary-key: k}]`)
	const (
		tls  = "without TLS"
		auth = "the emulator's key is public"
	)
	for _, c := range []struct {
		name  string
		env   func(string) (string, bool)
		flags string // listen and switches
		want  []string
	}{
		{"loopback", nil, "127.0.0.1:1/plain", nil},
		{"known key, plain", nil, "10.0.0.1:1/plain", []string{tls, auth}},
		{"known key, TLS", nil, "10.0.0.1:1/tls", []string{auth}},
		{"own key, plain", own, "10.0.0.1:1/plain", []string{tls}},
		{"own key, TLS", own, "10.0.0.1:1/tls", nil},
		{"own key, TLS, public", own, ":443/tls", nil},
		{"one flag of two", nil, "10.0.0.1:1/plain insecure-no-tls", []string{auth}},
		{"the other of two", nil, "10.0.0.1:1/plain insecure-no-auth", []string{tls}},
		{"both", nil, "10.0.0.1:1/plain insecure-no-tls insecure-no-auth", nil},
		{"both, public", nil, ":1/plain insecure-no-tls insecure-no-auth", []string{tls, auth}},
		{"all three", nil, ":1/plain insecure-no-tls insecure-no-auth i-accept-the-risk", nil},
		{"known key, TLS, public", nil, ":1/tls insecure-no-auth", []string{auth}},
		{"known key, TLS, public, accepted", nil, ":1/tls insecure-no-auth i-accept-the-risk", nil},
		{"risk alone", nil, ":1/tls i-accept-the-risk", []string{auth}},
		{"any bearer", own, "10.0.0.1:1/tls accept-any-bearer", []string{"any bearer token is accepted"}},
		{"any bearer on loopback", own, "127.0.0.1:1 accept-any-bearer", nil},
		{"any bearer, trusted network", own, "10.0.0.1:1/tls accept-any-bearer insecure-no-auth", nil},
	} {
		words := strings.Fields(c.flags)
		flags := map[string][]string{"listen": {words[0]}}
		for _, w := range words[1:] {
			flags[w] = []string{"true"}
		}
		_, err := Load(Sources{Env: c.env, Flags: flags})
		var problems Problems
		if err != nil && !errors.As(err, &problems) || len(problems) != len(c.want) {
			t.Errorf("%s: %v; want %d problems", c.name, err, len(c.want))
			continue
		}
		for i, p := range problems {
			if !strings.Contains(p.Text, c.want[i]) {
				t.Errorf("%s: %s", c.name, p)
			}
		}
	}
}

// Management-api.md 1.7, 5.5; reliability.md S4.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{File: write(t, "c.yaml", "jwt:\n  issuer: https://login.example/t/\n  audience: [a, b]\n  roles-claim: bus\n", 0o644),
		Flags: map[string][]string{"jwt.audience": {"c"}}})
	if err != nil || s.Identity.Issuer != "https://login.example/t/" || strings.Join(s.Identity.Audiences, " ") != "c" || s.Identity.RolesClaim != "bus" || s.OpenToAll() != s.DevelopmentKey() {
		t.Errorf(`%+v, %v; want s.Identity.Issuer == "https://login.example/t/" && strings.Join(s.Identity.Audiences, " ") == "c" && s.Identity.RolesClaim == "bus" && s.OpenToAll() == s.DevelopmentKey()`, s.Identity, err)
	}
	if s, err := Load(Sources{Flags: map[string][]string{"jwt.issuer": {"http://localhost:8080/realm"}, "jwt.audience": {"a"}}}); err != nil || s.Identity.AnyBearer {
		t.Errorf("%+v, %v; want !s.Identity.AnyBearer", s.Identity, err)
	}
	own := environment("LEDGERBUS_ACCESS_RULES", `[{name: a, rights: [Manage], primary-key: k}]`)
	for _, c := range []struct {
		flags map[string][]string
		want  string
	}{
		{map[string][]string{"jwt.audience": {"a"}, "jwt.roles-claim": {"r"}}, "--jwt-audience: jwt.audience is given without jwt.issuer\n--jwt-roles-claim: jwt.roles-claim is given without jwt.issuer"},
		{map[string][]string{"jwt.issuer": {"https://x"}}, "--jwt-issuer: jwt.issuer needs at least one jwt.audience, else tokens made for other services would be accepted"},
		{map[string][]string{"jwt.issuer": {"https://x"}, "jwt.audience": {""}}, "--jwt-audience: jwt.issuer needs at least one jwt.audience, else tokens made for other services would be accepted"},
		{map[string][]string{"jwt.issuer": {"x.example"}, "jwt.audience": {"a"}}, "--jwt-issuer: must be a URL such as https://login.example/tenant"},
		{map[string][]string{"jwt.issuer": {"https://u:p@x/?q"}, "jwt.audience": {"a"}}, "--jwt-issuer: must be a URL such as https://login.example/tenant"},
		{map[string][]string{"jwt.issuer": {"http://x.example"}, "jwt.audience": {"a"}}, "--jwt-issuer: must be an https URL: an attacker who changes the answers of an http one can sign tokens"},
		{map[string][]string{"mode": {"production"}, "jwt.issuer": {"http://localhost"}, "jwt.audience": {"a"}}, "--jwt-issuer: must be an https URL: an attacker who changes the answers of an http one can sign tokens"},
		{map[string][]string{"mode": {"production"}, "accept-any-bearer": {"true"}}, "--accept-any-bearer: accept-any-bearer is for development mode only"},
		{map[string][]string{"jwt.issuer": {"https://x"}, "jwt.audience": {"a"}, "accept-any-bearer": {"true"}}, "--accept-any-bearer: accept-any-bearer is given together with jwt.issuer: tokens of any issuer would be accepted"},
		{map[string][]string{"mode": {"production"}, "insecure-no-auth": {"true"}}, "--insecure-no-auth: insecure-no-auth is for development mode only"},
	} {
		if _, err := Load(Sources{Env: own, Flags: c.flags}); err == nil || err.Error() != c.want {
			t.Errorf("%v:\n%v\nwant\n%s", c.flags, err, c.want)
		}
	}
}

func TestRuleNamesIgnoreCase(t *testing.T) {
	t.Parallel()
	_, err := Load(Sources{Env: environment("LEDGERBUS_ACCESS_RULES", `[{name: a, rights: [Manage], primary-key: k}, {name: A, rights: [Send], primary-key: l}]`)})
	if err == nil || !strings.Contains(err.Error(), `two rules are named "A"`) {
		t.Errorf("%+v; want err != nil && strings.Contains(err.Error(), `two rules are named \"A\"`)", err)
	}
}

// S3: production mode has no default key. The file of init starts a broker in production mode, and
// no two files have the same keys.
func TestInitial(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "", 0o600)
	keys := map[string]bool{}
	for range 2 {
		text, err := Initial()
		if err != nil {
			t.Fatal(err)
		}
		rewrite := write(t, "c.yaml", string(text), 0o600)
		s, err := Load(Sources{File: rewrite})
		if err != nil || s.Mode != Production || len(s.Access) != 1 || s.Access[0].Name != developmentRule || s.DevelopmentKey() || len(s.Access[0].Rights) != 3 {
			t.Fatalf("%+v, %v; want s.Mode == Production && len(s.Access) == 1 && s.Access[0].Name == developmentRule && !s.DevelopmentKey() && len(s.Access[0].Rights) == 3", s, err)
		}
		for _, key := range []string{s.Access[0].Primary.Reveal(), s.Access[0].Secondary.Reveal()} {
			if len(key) != 44 || keys[key] {
				t.Errorf("a key of %d characters", len(key))
			}
			keys[key] = true
		}
		if _, err := Load(Sources{File: write(t, "c.yaml", string(text), 0o644)}); err == nil {
			t.Error("others may read the keys")
		}
	}
	if _, err := Load(Sources{File: file}); err != nil {
		t.Error(err)
	}
}
