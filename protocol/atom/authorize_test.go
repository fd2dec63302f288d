package atom

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sas"
)

// signed makes the pairs of a token from sr as it is in the token.
func signed(sr, rule, key string) (pairs map[string]string) {
	se := strconv.FormatInt(start.Std().Add(time.Hour).Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(sr + "\n" + se))
	return map[string]string{"sr": sr, "se": se, "skn": url.QueryEscape(rule), "sig": url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))}
}

func join(pairs map[string]string, order string) string {
	var list []string
	for key := range strings.SplitSeq(order, ",") {
		list = append(list, key+"="+pairs[key])
	}
	return "SharedAccessSignature " + strings.Join(list, "&")
}

// MA-006, MA-007, MA-009 to MA-012: the tokens of each SDK, as they write them.
func TestTokens(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("Q/1")
	const root = "RootManageSharedAccessKey"
	lower := strings.ToLower
	for name, token := range map[string]string{
		"go":          join(signed(lower(url.QueryEscape("https://localhost:5300/Q/1?api-version=2024-05")), root, rootKey), "sr,sig,se,skn"),
		"js":          join(signed(lower(url.QueryEscape("https://localhost:5300/Q/1?api-version=2021-05")), root, rootKey), "sig,se,skn,sr"),
		"py":          join(signed(url.QueryEscape("https://localhost:5300"), root, rootKey), "sr,sig,se,skn"),
		"net":         join(signed(url.QueryEscape("http://localhost:5300/Q/1"), root, rootKey), "sr,sig,se,skn"),
		"slash":       join(signed(url.QueryEscape("sb://HOST/q/1/"), root, rootKey), "se,sr,skn,sig"),
		"encoded":     join(signed(url.QueryEscape("https://localhost/Q%2F1"), root, rootKey), "sr,sig,se,skn"),
		"above":       join(signed(url.QueryEscape("https://localhost/Q"), root, rootKey), "sr,sig,se,skn"),
		"secondary":   join(signed(url.QueryEscape("https://localhost/"), root, otherKey), "sr,sig,se,skn"),
		"case of skn": join(signed(url.QueryEscape("https://localhost/"), lower(root), rootKey), "sr,sig,se,skn"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := *a
			a.t = t
			a.get("/Q/1", "Authorization", token).is(200)
			// The case of the escapes in sig does not matter; in sr it does, because its bytes were
			// signed.
			if head, sig, _ := strings.Cut(token, "sig="); !strings.Contains(sig, "&sr=") {
				other := head + "sig=" + strings.NewReplacer("%2B", "%2b", "%2F", "%2f", "%3D", "%3d").Replace(sig)
				a.get("/Q/1", "Authorization", other).is(200)
			}
		})
	}
}

// MA-008, MA-010: tokens that are refused, and why.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("a", "ab", "topic:t", "t/Subscriptions/x")
	root := "RootManageSharedAccessKey"
	expired := sas.Token("sb://"+host, root, rootKey, start.Std().Add(-10*time.Minute))
	for name, c := range map[string]struct{ path, token, fragment string }{
		"expired":       {"/a", expired, "SubCode=40106"},
		"unknown rule":  {"/a", sign("sb://"+host, "nobody", rootKey), "SubCode=40103"},
		"wrong key":     {"/a", sign("sb://"+host, root, "x"), "SubCode=40103"},
		"malformed":     {"/a", "SharedAccessSignature sr=x", "SubCode=40105"},
		"other scheme":  {"/a", "Basic eDp5", "SubCode=401"},
		"bearer":        {"/a", "Bearer eyJh.eyJh.c2ln", "SubCode=401"},
		"other entity":  {"/ab", sign("sb://"+host+"/a", root, rootKey), "SubCode=40104"},
		"above":         {"/$Resources/Queues", sign("sb://"+host+"/a", root, rootKey), "SubCode=40104"},
		"the namespace": {"/$namespaceinfo", sign("sb://"+host+"/a", root, rootKey), "SubCode=40104"},
	} {
		w := a.get(c.path, "Authorization", c.token)
		if w.is(401, c.fragment); !strings.HasPrefix(w.body, "<Error><Code>401</Code><Detail>SubCode=") {
			t.Errorf(`%s: %s; want strings.HasPrefix(w.body, "<Error><Code>401</Code><Detail>SubCode=")`, name, w.body)
		}
		if strings.Contains(w.body, "sig=") {
			t.Errorf("%s: the token comes back", name)
		}
	}
	a.get("/t/Subscriptions/x", "Authorization", sign("sb://"+host+"/t", root, rootKey)).is(200)
}

// MA-014 to MA-018: rights are checked before an answer shows what exists, with one exception;
// never 403.
func TestRights(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s")
	const read, write, remove = "Manage,EntityRead claims required for this operation", "Authorization failed for specified action: Manage,EntityWrite", "Authorization failed for specified action: Manage,EntityDelete."
	unauthorized := func(operation string) string {
		return "401 SubCode=40100: Unauthorized : Unauthorized access for '" + operation + "' operation"
	}
	for _, c := range []struct{ method, path, listen, send string }{
		{"GET", "/q", read, read},
		{"GET", "/t", read, read},
		{"GET", "/$Resources/Queues", read, read},
		{"GET", "/$Resources/Topics", read, read},
		{"PUT", "/q", write, write},
		{"PUT", "/missing", write, write},
		{"DELETE", "/q", remove, remove},
		{"DELETE", "/missing", remove, remove},
		{"GET", "/t/Subscriptions/s", unauthorized("GetSubscription"), unauthorized("GetSubscription")},
		{"GET", "/t/Subscriptions/missing", unauthorized("GetSubscription"), unauthorized("GetSubscription")},
		{"GET", "/missing/Subscriptions/s", unauthorized("GetSubscription"), unauthorized("GetSubscription")},
		{"GET", "/t/Subscriptions", unauthorized("EnumerateSubscriptions"), unauthorized("EnumerateSubscriptions")},
		{"PUT", "/t/Subscriptions/s", unauthorized("CreateOrUpdateSubscription"), unauthorized("CreateOrUpdateSubscription")},
		{"DELETE", "/t/Subscriptions/s", unauthorized("DeleteSubscription"), unauthorized("DeleteSubscription")},
		{"GET", "/t/Subscriptions/s/Rules", "", unauthorized("EnumerateRules")},
		{"GET", "/t/Subscriptions/s/Rules/$Default", "", unauthorized("GetRule")},
		{"PUT", "/t/Subscriptions/s/Rules/r", unauthorized("CreateOrUpdateRule"), unauthorized("CreateOrUpdateRule")},
		{"PUT", "/t/Subscriptions/s/Rules/", unauthorized("CreateOrUpdateRule"), unauthorized("CreateOrUpdateRule")},
		{"DELETE", "/t/Subscriptions/s/Rules/$Default", unauthorized("DeleteRule"), unauthorized("DeleteRule")},
		{"GET", "/$namespaceinfo", "", ""},
	} {
		for token, fragment := range map[string]string{sign("sb://"+host, "listener", listenKey): c.listen, sign("sb://"+host, "sender", sendKey): c.send} {
			w := a.do(c.method, c.path, queue(""), "Authorization", token)
			if fragment == "" {
				w.is(200)
				continue
			}
			w.is(401, fragment)
			if w.header.Get("ETag") != "" {
				t.Errorf("%s: the ETag tells that it is there", w.what)
			}
		}
	}
	a.get("/missing", "Authorization", sign("sb://"+host, "listener", listenKey)).notFound()
	a.get("/q").is(200)
	a.get("/t/Subscriptions/s").is(200)
}

// MA-059: forwarding with the second token of each SDK, and without one.
func TestForwardTokens(t *testing.T) {
	t.Parallel()
	const key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab"
	auth := `<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Manage</AccessRights><AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights></Rights><KeyName>own</KeyName><PrimaryKey>` + key + `</PrimaryKey></AuthorizationRule></AuthorizationRules>`
	a := newAPI(t)
	a.create("target")
	a.put("/source", queue(auth)).is(201)
	own := sign("sb://"+host+"/source", "own", key)
	to := auth + `<ForwardTo>sb://` + host + `/target</ForwardTo>`
	dead := auth + `<ForwardDeadLetteredMessagesTo>target</ForwardDeadLetteredMessagesTo>`
	lower := strings.ToLower
	for name, token := range map[string]string{
		"go":  join(signed(lower(url.QueryEscape("https://"+host+"/target")), "sender", sendKey), "sr,sig,se,skn"),
		"js":  join(signed(lower(url.QueryEscape("localhost:5300/target")), "sender", sendKey), "sig,se,skn,sr"),
		"py":  join(signed(url.QueryEscape("sb://"+host+"/target"), "sender", sendKey), "sr,sig,se,skn"),
		"net": join(signed(url.QueryEscape("http://"+host+"/target"), "sender", sendKey), "sr,sig,se,skn"),
	} {
		if w := a.update("/source", queue(to), "Authorization", own, "ServiceBusSupplementaryAuthorization", token); w.status != 200 {
			t.Errorf("%s: %d %s; want w.status == 200", name, w.status, w.body)
		}
		a.update("/source", queue(dead), "Authorization", own, "Servicebusdlqsupplementaryauthorization", token).is(200)
		a.update("/source", queue(dead), "Authorization", own, "ServiceBusSupplementaryAuthorization", token).is(401)
	}
	for name, token := range map[string]string{
		"none": "", "to listen": sign("sb://"+host, "listener", listenKey), "for another": sign("sb://"+host+"/source", "sender", sendKey), "own": own,
	} {
		w := a.update("/source", queue(to), "Authorization", own, "ServiceBusSupplementaryAuthorization", token)
		if w.status != 401 || !strings.Contains(w.body, "SubCode=40100") {
			t.Errorf(`%s: %d %s; want w.status == 401 && strings.Contains(w.body, "SubCode=40100")`, name, w.status, w.body)
		}
	}
	sends := sign("sb://"+host+"/target", "sender", sendKey)
	// decoded once
	for escaped, status := range map[string]int{"%74arget": 200, "sb://" + host + "/%74arget": 200, "%2574arget": 401, "sb://" + host + "/%2574arget": 401} {
		a.update("/source", queue(auth+"<ForwardTo>"+escaped+"</ForwardTo>"), "Authorization", own, "ServiceBusSupplementaryAuthorization", sends).is(status)
	}
	a.update("/source", queue(to)).is(200) // with a key of the namespace that allows everything
}

// Every change says who made it, from where and with what, within bounds.
func TestOrigin(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	long := strings.Repeat("é", 1000)
	a.put("/q", queue(""), "User-Agent", long).is(201)
	a.create("topic:t", "t/Subscriptions/s", "t/Subscriptions/s/Rules/r")
	a.delete("/t/Subscriptions/s/Rules/r").is(200)
	a.delete("/t").is(200)
	if len(a.fake.origins) != 6 {
		t.Fatalf("%+v, want 6", len(a.fake.origins))
	}
	seen := map[uint64]bool{}
	for _, o := range a.fake.origins {
		if o.Principal != "RootManageSharedAccessKey" || o.Link != "management" || o.RemoteAddress == "" || o.Product == "" || seen[o.Connection] {
			t.Errorf(`%+v; want o.Principal == "RootManageSharedAccessKey" && o.Link == "management" && o.RemoteAddress != "" && o.Product != "" && !seen[o.Connection]`, o)
		}
		seen[o.Connection] = true
	}
	if o := a.fake.origins[0]; o.Entity != "q" || o.Product != strings.Repeat("é", 64) {
		t.Errorf(`%+v; want o.Entity == "q" && o.Product == strings.Repeat("é", 64)`, o)
	}
	if o := a.fake.origins[4]; o.Entity != "t/Subscriptions/s/Rules/r" || o.Product != "test" {
		t.Errorf(`%+v; want o.Entity == "t/Subscriptions/s/Rules/r" && o.Product == "test"`, o)
	}
}
