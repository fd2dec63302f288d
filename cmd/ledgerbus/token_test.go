package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// MA-165: what token prints is a token of the key that all other commands would use, for the
// namespace or for one entity; the requests of the guide can be made with it, as with name and key.
func TestToken(t *testing.T) {
	broker := startBroker(t)
	base := "http://" + regexp.MustCompile(`sb://([^;]*)`).FindStringSubmatch(broker)[1]
	get := func(path string, authorize func(*http.Request)) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		authorize(r)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	const partitions, orders = "/$ledger/v1/partitions", "/orders?api-version=2021-05"
	for _, c := range []struct {
		args              []string
		partitions, queue int // status codes
	}{
		{nil, 200, 200},
		{[]string{"orders"}, 401, 200},
		{[]string{"others"}, 401, 401},
	} {
		r := execute(t, broker, "", append([]string{"token"}, c.args...)...)
		if r.code != 0 || r.errOut != "" || !strings.HasPrefix(r.out, "SharedAccessSignature sr=") || strings.Count(r.out, "\n") != 1 {
			t.Fatalf("%q: %+v", c.args, r)
		}
		with := func(req *http.Request) { req.Header.Set("Authorization", strings.TrimSpace(r.out)) }
		if p, q := get(partitions, with), get(orders, with); p != c.partitions || q != c.queue {
			t.Errorf("token %q: partitions %d, queue %d; want %d, %d", c.args, p, q, c.partitions, c.queue)
		}
	}
	for key, want := range map[string]int{"SAS_KEY_VALUE": 200, "another": 401} {
		with := func(r *http.Request) { r.SetBasicAuth("RootManageSharedAccessKey", key) }
		if p, q := get(partitions, with), get(orders, with); p != want || q != want {
			t.Errorf("name and key %s: partitions %d, queue %d; want %d", key, p, q, want)
		}
	}
	guide, err := os.ReadFile("../../docs/guide/ledger-api.md")
	if err != nil {
		t.Fatal(err)
	}
	curls := regexp.MustCompile(`(?s)\$ curl (.*?) http://localhost:5300/\\(\S+)`).FindAllStringSubmatch(string(guide), -1)
	for _, c := range curls { // requests as the guide has them, as far as who makes them
		if strings.Contains(c[1], "$(ledgerbus token)") {
			continue // as above
		}
		user := regexp.MustCompile(`-u (\S+):(\S+)`).FindStringSubmatch(c[1])
		if user == nil {
			t.Errorf("%q cannot be typed: it has no key", c[0])
			continue
		}
		if status := get("/"+c[2], func(r *http.Request) { r.SetBasicAuth(user[1], user[2]) }); status == 401 || status == 403 {
			t.Errorf("%q is answered %d", c[0], status)
		}
	}
	if len(curls) < 4 {
		t.Errorf("%d requests in the guide, want 4 at least", len(curls))
	}
	for args, want := range map[string]string{"token a b": "takes [ENTITY]", "token orders#1": "orders#1 is not an entity", "token @0/1": "is not an entity"} {
		if r := execute(t, "", "", strings.Fields(args)...); r.code != 2 || r.out != "" || !strings.Contains(r.errOut, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
