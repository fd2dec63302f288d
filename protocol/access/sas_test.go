package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/sas"
)

var testNow = time.Unix(1_700_000_000, 0)

const later = "1700003600"

var testRules = []event.AccessRule{
	{Name: "root", Primary: "key+/=", Secondary: "second", Rights: event.Rights{event.Manage}},
	{Name: "my rule", Primary: "k", Rights: event.Rights{event.Listen}},
}

var testVerifier = New(Options{Rules: testRules, Hosts: []string{"h", "bus.example:5671"}, Development: true})

// signed makes a token with full control over its text.
func signed(sr, se, skn, key string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(sr + "\n" + se))
	return "SharedAccessSignature sr=" + sr + "&sig=" + url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil))) + "&se=" + se + "&skn=" + skn
}

const testAudienceQ = "sb://h/q"

// rootToken is a token for a resource, signed with a key that allows everything.
func rootToken(resource string) string { return signed(resource, later, "root", "key+/=") }

var verifications = map[string]struct {
	token, audience string
	want            error
}{
	"lower-case escapes":     {rootToken("sb%3a%2f%2fh%2fq"), testAudienceQ, nil},
	"upper-case escapes":     {rootToken("sb%3A%2F%2Fh%2Fq"), testAudienceQ, nil},
	"secondary key":          {signed("sb%3A%2F%2Fh%2Fq", later, "root", "second"), testAudienceQ, nil},
	"not escaped":            {rootToken("sb://h/q"), testAudienceQ, nil},
	"other scheme and port":  {rootToken("http://H:80/Q/"), "amqps://other:5671/q", nil},
	"query":                  {rootToken("https%3a%2f%2fh%2fq%3fapi-version%3d2021-05"), testAudienceQ, nil},
	"whole namespace":        {rootToken("amqp://h"), testAudienceQ, nil},
	"no scheme":              {rootToken("ns.servicebus.windows.net"), "amqps://ns.servicebus.windows.net/q", nil},
	"no scheme, path":        {rootToken("ns.servicebus.windows.net%2fq"), "q", nil},
	"no scheme, port":        {rootToken("somewhere%3a5300"), testAudienceQ, nil},
	"no scheme, our host":    {rootToken("bus.example"), testAudienceQ, nil},
	"below":                  {rootToken("sb://h/q"), "sb://h/q/$management", nil},
	"escaped name":           {rootToken("https%3a%2f%2fh%2ft%2fsubscriptions%2fs%2frules%2f%2524default"), "https://h/t/Subscriptions/s/rules/$Default", nil},
	"rule encoded once":      {signed("sb://h/q", later, "my%20rule", "k"), testAudienceQ, nil},
	"rule encoded twice":     {signed("sb://h/q", later, "my%2520rule", "k"), testAudienceQ, nil},
	"rule raw":               {signed("sb://h/q", later, "my rule", "k"), testAudienceQ, nil},
	"rule in another case":   {signed("sb://h/q", later, "ROOT", "key+/="), testAudienceQ, nil},
	"other path":             {rootToken("sb://h/q"), "sb://h/q2", ErrScope},
	"prefix":                 {rootToken("sb://h/q1"), "sb://h/q10", ErrScope},
	"prefix of a segment":    {rootToken("sb://h/a/q1"), "sb://h/a/q10/$management", ErrScope},
	"subscription":           {rootToken("sb://h/a"), "sb://h/a/Subscriptions/x", nil},
	"parent":                 {rootToken("sb://h/q/x"), testAudienceQ, ErrScope},
	"dotted entity":          {rootToken("my.queue"), testAudienceQ, ErrScope},
	"one word":               {rootToken("h"), testAudienceQ, ErrScope},
	"climbing":               {rootToken("sb://h/q"), "sb://h/q/../q2", ErrScope},
	"climbing, escaped":      {rootToken("sb://h/q"), "sb://h/q/%2e%2e/q2", ErrScope},
	"climbing, twice":        {rootToken("sb://h/q"), "sb://h/q/%252e%252e/q2", ErrScope},
	"escaped twice":          {rootToken("sb://h/q"), "sb://h/%2571", ErrScope},
	"escaped in the token":   {rootToken("sb%3a%2f%2fh%2f%2571"), testAudienceQ, nil},
	"twice in the token":     {rootToken("sb%3a%2f%2fh%2f%252571"), testAudienceQ, ErrScope},
	"thrice in the token":    {rootToken("sb%3a%2f%2fh%2f%25252571"), testAudienceQ, ErrScope},
	"signature, twice":       {strings.ReplaceAll(strings.ReplaceAll(rootToken("sb://h/q"), "%", "%25"), "sb:%25", "sb:%"), testAudienceQ, ErrSignature},
	"climbing in the token":  {rootToken("sb://h/q2/../q"), testAudienceQ, ErrScope},
	"an address in the path": {rootToken("sb://h/q"), "sb://h/q/://h/q2", ErrScope},
	"any scheme":             {rootToken("foo%3a%2f%2fh%2fq"), "WSS://h:443/Q/", nil},
	"any scheme, encoded":    {rootToken("svc%2Bx-1.0%3A%2F%2FH%3A1%2FQ%2F%3fx%3d1"), "ftp://other/q/$management", nil},
	"any scheme, no path":    {rootToken("foo://h"), "bar://h/q", nil},
	"any scheme, other path": {rootToken("foo://h/q"), "foo://h/q2", ErrScope},
	"no scheme before ://":   {rootToken("://h/q"), testAudienceQ, ErrScope},
	"no letter in front":     {rootToken("1s://h/q"), testAudienceQ, ErrScope},
	"a path for a scheme":    {rootToken("q/x://h/q"), testAudienceQ, ErrScope},
	"only slashes":           {rootToken("//q"), testAudienceQ, nil},
	"only slashes, other":    {rootToken("//q2"), testAudienceQ, ErrScope},
	"a user":                 {rootToken("sb://u:p@h/q"), testAudienceQ, ErrScope},
	"a user, no scheme":      {rootToken("u@h:5671/q"), testAudienceQ, ErrScope},
	"a user in the audience": {rootToken("sb://h/q"), "sb://u@h/q", ErrScope},
	"query before the path":  {rootToken("sb://h?x=/q"), "sb://h/q2", nil},
	"no host":                {rootToken("sb:///q"), testAudienceQ, ErrScope},
	"bad escape":             {rootToken("sb://h/q%zz"), testAudienceQ, ErrMalformed},
	"expired":                {signed("sb://h/q", "1700000000", "root", "key+/="), testAudienceQ, ErrExpired},
	"expired, wrong key":     {signed("sb://h/q", "1700000000", "root", "wrong"), testAudienceQ, ErrSignature},
	"wrong key, other path":  {signed("sb://h/q", later, "root", "wrong"), "sb://h/q2", ErrSignature},
	"overflow":               {signed("sb://h/q", "99999999999999999999", "root", "key+/="), testAudienceQ, ErrMalformed},
	"absurd":                 {signed("sb://h/q", "999999999999", "root", "key+/="), testAudienceQ, ErrMalformed},
	"negative":               {signed("sb://h/q", "-1", "root", "key+/="), testAudienceQ, ErrMalformed},
	"wrong key":              {signed("sb://h/q", later, "root", "wrong"), testAudienceQ, ErrSignature},
	"empty key":              {signed("sb://h/q", later, "my rule", ""), testAudienceQ, ErrSignature},
	"unknown rule":           {signed("sb://h/q", later, "nobody", ""), testAudienceQ, ErrSignature},
	"key of another rule":    {signed("sb://h/q", later, "my rule", "key+/="), testAudienceQ, ErrSignature},
	"field twice":            {rootToken("sb://h/q") + "&se=" + later, testAudienceQ, ErrMalformed},
	"unknown field":          {rootToken("sb://h/q") + "&x=1", testAudienceQ, ErrMalformed},
	"no value":               {strings.Replace(rootToken("sb://h/q"), "skn=root", "skn=", 1), testAudienceQ, ErrMalformed},
	"no prefix":              {strings.TrimPrefix(rootToken("sb://h/q"), "SharedAccessSignature "), testAudienceQ, ErrUnsupported},
	"too long":               {rootToken("sb://h/q") + strings.Repeat(" ", 4096), testAudienceQ, ErrMalformed},
	"empty":                  {"", testAudienceQ, ErrUnsupported},
	"bearer":                 {"Bearer a.b.c", testAudienceQ, ErrUnsupported},
}

// WP-050, WP-051, WP-052, MA-007 to MA-011, reliability.md S5 to S9; M22: a scope is not a plain
// prefix.
func TestVerify(t *testing.T) {
	t.Parallel()
	for name, test := range verifications {
		g, err := testVerifier.Verify(test.token, test.audience, testNow)
		if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v %+v, want %v", name, err, g, test.want)
		}
		if err != nil && g.Rights != 0 {
			t.Errorf("%s: rights with an error", name)
		}
	}
	literal := strings.ReplaceAll(rootToken("sb://h/q"), "%2B", "+")
	if _, err := testVerifier.Verify(literal, testAudienceQ, testNow); err != nil {
		t.Errorf("literal +: %v", err)
	}
	if g, err := testVerifier.VerifyPath(rootToken("sb://h/q"), "/Q/Messages/", testNow); err != nil || g.Path != "q/messages" || g.Rule != "root" || g.Expires.Unix() != 1700003600 {
		t.Errorf(`%+v, %v; want g.Path == "q/messages" && g.Rule == "root" && g.Expires.Unix() == 1700003600`, g, err)
	}
	// decoded already: text that still looks escaped names nothing
	for _, path := range []string{"%71", "q%2f..%2fq", "q2/..%2fq"} {
		if g, err := testVerifier.VerifyPath(rootToken("sb://h/q"), path, testNow); !errors.Is(err, ErrScope) {
			t.Errorf("path %s: %+v, %v", path, g, err)
		}
	}
	if _, err := testVerifier.Verify(sas.Token("sb://h/q", "my rule", "k", testNow.Add(time.Hour)), testAudienceQ, testNow); err != nil {
		t.Error(err)
	}
}

// MA-006: the fields in every order.
func TestOrderOfFields(t *testing.T) {
	t.Parallel()
	fields := strings.Split(strings.TrimPrefix(signed("sb%3a%2f%2fh%2fq", later, "root", "key+/="), SASPrefix), "&")
	var try func(done, left []string)
	tried := 0
	try = func(done, left []string) {
		if len(left) == 0 {
			tried++
			if _, err := testVerifier.Verify(SASPrefix+strings.Join(done, "&"), "sb://h/q", testNow); err != nil {
				t.Errorf("%v: %v", done, err)
			}
		}
		for i := range left {
			rest := append(append([]string(nil), left[:i]...), left[i+1:]...)
			try(append(append([]string(nil), done...), left[i]), rest)
		}
	}
	try(nil, fields)
	if tried != 24 {
		t.Errorf("%+v, want 24", tried)
	}
}

// S9: outside development mode tokens are valid only for our host names.
func TestHosts(t *testing.T) {
	t.Parallel()
	v := New(Options{Rules: testRules, Hosts: []string{"ns", "NS.example"}})
	for sr, ok := range map[string]bool{"sb://ns:5671/q": true, "https://ns.EXAMPLE/q": true, "ns.example%2fq": true, "ns.example:443": true,
		"sb://foreign/q": false, "foreign:5671": false, "localhost": false, "foreign.servicebus.windows.net": false} {
		if _, err := v.Verify(signed(sr, later, "root", "second"), "sb://NS/q", testNow); (err == nil) != ok {
			t.Errorf("%s: %v; want (err == nil) == ok", sr, err)
		}
	}
	if _, err := v.Verify(signed("sb://ns/q", later, "root", "second"), "sb://foreign/q", testNow); !errors.Is(err, ErrScope) {
		t.Errorf("audience of another host: %v", err)
	}
}

// S9: a text that is not a host is not taken for one, not even in development mode, where any host
// is ours.
func TestMalformedHosts(t *testing.T) {
	t.Parallel()
	for host, ok := range map[string]bool{"h": true, "h:5671": true, "service_bus": true, "127.0.0.1:5672": true, "[::1]": true, "[::1]:5672": true,
		"h:": false, "h:x": false, "h:70000": false, "a:b:": false, "a:b:1": false, "user@h": false, "[::1": false, "[h]": false, "::1": false, "h%2f": false, "": false} {
		if _, got := testVerifier.Resource("sb://" + host + "/q"); got != ok {
			t.Errorf("%q: %t, want %t", host, got, ok)
		}
	}
}

// plainVerify is a second, simpler implementation of wire-protocol.md 2.5: a token that it refuses
// must never be accepted.
func plainVerify(token, audience string, now int64) bool {
	text, ok := strings.CutPrefix(token, "SharedAccessSignature ")
	if !ok || len(token) > 4096 {
		return false
	}
	fields := map[string]string{}
	for _, part := range strings.Split(text, "&") {
		key, value, _ := strings.Cut(part, "=")
		if _, twice := fields[key]; twice {
			return false
		}
		fields[key] = value
	}
	se, err := strconv.ParseInt(fields["se"], 10, 64)
	if len(fields) != 4 || err != nil || se <= now {
		return false
	}
	sig, err := url.PathUnescape(fields["sig"])
	if err != nil {
		return false
	}
	for _, key := range []string{"key+/=", "second", "k"} {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(fields["sr"] + "\n" + fields["se"]))
		if base64.StdEncoding.EncodeToString(mac.Sum(nil)) != sig {
			continue
		}
		sr, err := url.PathUnescape(fields["sr"])
		if err != nil {
			return false
		}
		path := func(s string) string {
			if _, rest, ok := strings.Cut(s, "://"); ok {
				_, s, _ = strings.Cut(rest, "/")
			}
			if d, err := url.PathUnescape(s); err == nil {
				s = d
			}
			return strings.ToLower(strings.Trim(s, "/"))
		}
		if !strings.Contains(sr, "://") {
			return true // host or path: left to the table above
		}
		scope, want := path(sr), path(audience)
		return scope == "" || strings.HasPrefix(want+"/", scope+"/") || strings.ContainsAny(sr+audience, "?#\\") || !strings.Contains(audience, "://")
	}
	return false
}

func FuzzSAS(f *testing.F) {
	for _, sr := range []string{"sb://h/q", "sb%3a%2f%2fh%2fq", "sb%3A%2F%2Fh", "ns.servicebus.windows.net", "q", "sb://h/%2571"} {
		f.Add(signed(sr, later, "root", "key+/="), "sb://h/q")
		f.Add(signed(sr, later, "my%20rule", "k"), "amqps://h:5671/q/$management")
		f.Add(signed(sr, "1600003600", "root", "second"), "q%2Fx")
	}
	f.Add(signed("sb://h/%2571", later, "root", "key+/="), "sb:b://q")
	f.Fuzz(func(t *testing.T, token, audience string) {
		g, err := testVerifier.Verify(token, audience, testNow)
		if err != nil {
			if g.Rights != 0 || g.Path != "" {
				t.Errorf("%+v with %v", g, err)
			}
			return
		}
		if !plainVerify(token, audience, testNow.Unix()) {
			t.Errorf("accepted %q for %q: %+v", token, audience, g)
		}
		if clean, ok := CleanPath(g.Path); !ok || clean != g.Path {
			t.Errorf("%q is not clean", g.Path)
		}
	})
}

// No printed form shows a key (reliability.md S31).
func TestGrantHidesItsKey(t *testing.T) {
	t.Parallel()
	const marker = event.Secret("MARKER-77aa")
	v := New(Options{Rules: []event.AccessRule{{Name: "r", Primary: marker, Rights: event.Rights{event.Send}}}, Development: true})
	g, err := v.Verify(signed("sb://h", later, "r", string(marker)), "sb://h/q", testNow)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, g) + fmt.Sprintf(verb, struct{ g Grant }{g}); strings.Contains(text, "MARKER") {
			t.Errorf(`%+v; want !strings.Contains(text, "MARKER")`, text)
		}
	}
}

// The resource of an audience, in its original spelling.
func TestResource(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Resource{
		"sb://Bus.Example:5671/My%2FQueue/": {"Bus.Example:5671", "My%2FQueue", "my/queue"},
		"foo://h":                           {"h", "", ""},
		"/My/Queue/$Management":             {"", "My/Queue/$Management", "my/queue/$management"},
		"h:5672/Q?x#y":                      {"h:5672", "Q", "q"},
	} {
		if got, ok := testVerifier.Resource(text); !ok || got != want {
			t.Errorf("%s: %+v; want ok && got == want", text, got)
		}
	}
}
