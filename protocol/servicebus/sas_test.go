package servicebus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

var testNow = time.Unix(1_700_000_000, 0)

var testVerifier = &sasVerifier{rules: []AccessRule{{Name: "root", Primary: "key+/=", Secondary: "second", Rights: Manage}, {Name: "my rule", Primary: "k", Rights: Listen}}}

// signed makes a token with full control over its text.
func signed(sr, se, skn, key string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(sr + "\n" + se))
	return "SharedAccessSignature sr=" + sr + "&sig=" + url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil))) + "&se=" + se + "&skn=" + skn
}

// WP-050, WP-051, WP-052, reliability.md S5 to S9.
func TestVerify(t *testing.T) {
	const later, audience = "1700003600", "sb://h/q"
	for name, test := range map[string]struct {
		token, audience string
		ok              bool
	}{
		"lower-case escapes":    {signed("sb%3a%2f%2fh%2fq", later, "root", "key+/="), audience, true},
		"upper-case escapes":    {signed("sb%3A%2F%2Fh%2Fq", later, "root", "key+/="), audience, true},
		"secondary key":         {signed("sb%3A%2F%2Fh%2Fq", later, "root", "second"), audience, true},
		"not escaped":           {signed("sb://h/q", later, "root", "key+/="), audience, true},
		"other scheme and port": {signed("http://H:80/Q/", later, "root", "key+/="), "amqps://other:5671/q", true},
		"whole namespace":       {signed("amqp://h", later, "root", "key+/="), audience, true},
		"no scheme":             {signed("ns.servicebus.windows.net", later, "root", "key+/="), "amqps://ns.servicebus.windows.net/q", true},
		"no scheme, path":       {signed("ns.servicebus.windows.net%2fq", later, "root", "key+/="), "q", true},
		"below":                 {signed("sb://h/q", later, "root", "key+/="), "sb://h/q/$management", true},
		"rule encoded once":     {signed("sb://h/q", later, "my%20rule", "k"), audience, true},
		"rule encoded twice":    {signed("sb://h/q", later, "my%2520rule", "k"), audience, true},
		"rule raw":              {signed("sb://h/q", later, "my rule", "k"), audience, true},
		"other path":            {signed("sb://h/q", later, "root", "key+/="), "sb://h/q2", false},
		"parent":                {signed("sb://h/q/x", later, "root", "key+/="), audience, false},
		"dotted entity":         {signed("my.queue", later, "root", "key+/="), audience, false},
		"climbing":              {signed("sb://h/q", later, "root", "key+/="), "sb://h/q/../q2", false},
		"unknown scheme":        {signed("ftp://h/q", later, "root", "key+/="), audience, false},
		"expired":               {signed("sb://h/q", "1700000000", "root", "key+/="), audience, false},
		"overflow":              {signed("sb://h/q", "99999999999999999999", "root", "key+/="), audience, false},
		"absurd":                {signed("sb://h/q", "999999999999", "root", "key+/="), audience, false},
		"negative":              {signed("sb://h/q", "-1", "root", "key+/="), audience, false},
		"wrong key":             {signed("sb://h/q", later, "root", "wrong"), audience, false},
		"empty key":             {signed("sb://h/q", later, "my rule", ""), audience, false},
		"unknown rule":          {signed("sb://h/q", later, "nobody", ""), audience, false},
		"field twice":           {signed("sb://h/q", later, "root", "key+/=") + "&se=" + later, audience, false},
		"unknown field":         {signed("sb://h/q", later, "root", "key+/=") + "&x=1", audience, false},
		"no prefix":             {strings.TrimPrefix(signed("sb://h/q", later, "root", "key+/="), "SharedAccessSignature "), audience, false},
		"too long":              {signed("sb://h/q", later, "root", "key+/=") + strings.Repeat(" ", 4096), audience, false},
		"empty":                 {"", audience, false},
	} {
		g, err := testVerifier.verify(test.token, test.audience, testNow)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v %+v", name, err, g)
		}
	}
	literal := signed("sb://h/q", later, "root", "key+/=")
	literal = strings.ReplaceAll(literal, "%2B", "+")
	if _, err := testVerifier.verify(literal, audience, testNow); err != nil {
		t.Errorf("literal +: %v", err)
	}
	v := &sasVerifier{rules: testVerifier.rules, hosts: []string{"ns"}}
	if _, err := v.verify(signed("sb://ns:5671/q", later, "root", "key+/="), "sb://NS/q", testNow); err != nil {
		t.Error(err)
	}
	if _, err := v.verify(signed("sb://foreign/q", later, "root", "key+/="), "sb://ns/q", testNow); err == nil {
		t.Error("token of another host accepted")
	}
	if _, err := testVerifier.verify(NewSASToken("sb://h/q", "my rule", "k", testNow.Add(time.Hour)), audience, testNow); err != nil {
		t.Error(err)
	}
}

// plainVerifier is a second, simpler reading of 2.5: what it refuses must never be accepted.
func plainVerifier(token, audience string, now int64) bool {
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
	for _, sr := range []string{"sb://h/q", "sb%3a%2f%2fh%2fq", "sb%3A%2F%2Fh", "ns.servicebus.windows.net", "q"} {
		f.Add(signed(sr, "1700003600", "root", "key+/="), "sb://h/q")
		f.Add(signed(sr, "1700003600", "my%20rule", "k"), "amqps://h:5671/q/$management")
		f.Add(signed(sr, "1600003600", "root", "second"), "q")
	}
	f.Fuzz(func(t *testing.T, token, audience string) {
		if g, err := testVerifier.verify(token, audience, testNow); err == nil && !plainVerifier(token, audience, testNow.Unix()) {
			t.Errorf("accepted %q for %q: %+v", token, audience, g)
		}
	})
}
