package client

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sas"
)

func TestParseConnectionString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, address, shown, entity string }{
		{DevelopmentConnectionString, "localhost:5672", "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=***;UseDevelopmentEmulator=true", ""},
		{"endpoint=sb://LOCALHOST:5999/;SHAREDACCESSKEYNAME=a;sharedaccesskey=x==;usedevelopmentemulator=TRUE", "LOCALHOST:5999", "Endpoint=sb://LOCALHOST:5999;SharedAccessKeyName=a;SharedAccessKey=***;UseDevelopmentEmulator=true", ""},
		{"Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=k=;EntityPath=/q/;Other=1", "n.servicebus.windows.net:5671", "Endpoint=sb://n.servicebus.windows.net;SharedAccessKeyName=a;SharedAccessKey=***;EntityPath=q", "q"},
		{" Endpoint=sb://[::1]:1 ; SharedAccessSignature=SharedAccessSignature sr=x&sig=y&se=1&skn=a", "[::1]:1", "Endpoint=sb://[::1]:1;SharedAccessSignature=***", ""},
	} {
		cs, err := ParseConnectionString(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if cs.Address() != c.address || cs.String() != c.shown || cs.EntityPath != c.entity {
			t.Errorf("%s: %s, %s, %q; want cs.Address() == c.address && cs.String() == c.shown && cs.EntityPath == c.entity", c.in, cs.Address(), cs, cs.EntityPath)
		}
	}
}

func TestBadConnectionStrings(t *testing.T) {
	t.Parallel()
	const marker = "MARKER"
	for in, want := range map[string]string{
		"":                                 "Endpoint=sb://HOST is missing",
		marker:                             "every part must be Key=Value",
		"SharedAccessKey=" + marker:        "Endpoint=sb://HOST is missing",
		"Endpoint=" + marker:               "Endpoint must be sb://HOST",
		"Endpoint=https://h":               "must begin with sb://",
		"Endpoint=sb://u:" + marker + "@h": "Endpoint must be sb://HOST",
		"Endpoint=sb://h/" + marker:        "Endpoint must be sb://HOST",
		"Endpoint=sb://h:0":                "port of Endpoint",
		"Endpoint=sb://h:99999":            "port of Endpoint",
		"Endpoint=sb://h:" + marker:        "Endpoint must be sb://HOST",
		"Endpoint=sb://h":                  "SharedAccessKeyName or SharedAccessKey is missing",
		"Endpoint=sb://h;SharedAccessKey=" + marker:                                       "SharedAccessKeyName or SharedAccessKey is missing",
		"Endpoint=sb://h;SharedAccessKeyName=a;SharedAccessSignature=" + marker:           "cannot be used with",
		"Endpoint=sb://h;UseDevelopmentEmulator=" + marker:                                "true or false",
		"Endpoint=sb://h;SharedAccessKeyName=" + strings.Repeat("a", maxConnectionString): "longer than",
	} {
		_, err := ParseConnectionString(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), marker) {
			t.Errorf("%.60s: %v; want err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), marker)", in, err)
		}
	}
}

func TestConnectionStringHidesItsKey(t *testing.T) {
	t.Parallel()
	const marker = "MARKER-77"
	for _, in := range []string{"Endpoint=sb://h;SharedAccessKeyName=a;SharedAccessKey=" + marker, "Endpoint=sb://h;SharedAccessSignature=" + marker} {
		cs, err := ParseConnectionString(in)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+verb, cs, &cs)
			fmt.Fprintf(&out, verb, struct{ C ConnectionString }{cs})
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "cs", cs)
		asJSON, err := json.Marshal(cs)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(asJSON)
		if strings.Contains(out.String(), marker) {
			t.Errorf("the key shows: %s", out.String())
		}
	}
}

// Our signer and that of the broker's tests were written independently; they must agree.
func TestTokenIsTheBrokersToken(t *testing.T) {
	t.Parallel()
	cs, err := ParseConnectionString("Endpoint=sb://h:1;SharedAccessKeyName=rule ü;SharedAccessKey=a+b/c=;UseDevelopmentEmulator=true")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	got := cs.Token("amqp://h:1/or ders", now)
	if want := sas.Token("amqp://h:1/or ders", "rule ü", "a+b/c=", now.Add(tokenLife)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func FuzzParseConnectionString(f *testing.F) {
	f.Add(DevelopmentConnectionString)
	f.Add("Endpoint=sb://[::1]:1;SharedAccessSignature=s;EntityPath=q")
	f.Fuzz(func(t *testing.T, s string) {
		cs, err := ParseConnectionString(s)
		if err != nil {
			return
		}
		again, err := ParseConnectionString(strings.Replace(cs.String(), "SharedAccessKey=***", "SharedAccessKey=k", 1))
		if err != nil || again.Address() != cs.Address() || again.Emulator != cs.Emulator {
			t.Fatalf("%q printed is %q and read again %v, %v", s, cs, again, err)
		}
	})
}
