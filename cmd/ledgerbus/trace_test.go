package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// weather makes a topic with six subscriptions.
func weather(t *testing.T, broker string) {
	t.Helper()
	for _, args := range [][]string{
		{"topic", "create", "weather"},
		{"subscription", "create", "weather", "storms", "--rule", "strong", "--sql", "wind > @least AND region = 'coast'", "--param", "@least=int:15", "--action", "SET level = wind / 5; REMOVE region; SET sys.Label = 'storm'"},
		{"subscription", "create", "weather", "calm", "--rule", "weak", "--sql", "wind <= 15 OR wind IS NULL"},
		{"subscription", "create", "weather", "inland", "--rule", "eu", "--correlation", "label=forecast", "--correlation", "property.region=inland"},
		{"subscription", "create", "weather", "all"},
		{"subscription", "create", "weather", "odd", "--rule", "typo", "--sql", "wnd > 20"},
		{"subscription", "create", "weather", "broken", "--rule", "sum", "--sql", "region > 5"},
	} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v; want r.code == 0", args, r)
		}
	}
}

// What trace says of a message is what becomes of it when it is sent, and it says the same of the
// directory. Nothing is sent by it.
func TestTrace(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	weather(t, broker)
	file := filepath.Join(t.TempDir(), "m.json")
	const message = `{"messageId": "W-1", "subject": "forecast", "body": "…", "deliveryCount": 0, "properties": {"wind": 17, "region": "coast"}}`
	if err := os.WriteFile(file, []byte(message), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`matches +weather/Subscriptions/all  rule \$Default\n`,
		`fails +weather/Subscriptions/broken  rule sum  "A string and a number cannot be ordered\."\n`,
		`false +weather/Subscriptions/calm  rule weak  "wind <= 15 OR wind IS NULL"  wind is 17\n`,
		`false +weather/Subscriptions/inland  rule eu  "region = 'inland'"  region is "coast"\n`,
		`unknown +weather/Subscriptions/odd  rule typo  "wnd > 20"  wnd is not set\n`,
		`matches +weather/Subscriptions/storms  rule strong  level becomes 3, region is removed, sys.Label becomes "storm"\n`,
		`2 of 6 subscriptions of weather would get it; nothing was sent\n`,
		`next: ledgerbus rule show 'weather' 'broken' 'sum'\n`, `next: ledgerbus audit 'weather'\n`,
	}
	asked := execute(t, broker, "", "trace", "weather", "--message", file)
	if asked.code != 0 {
		t.Fatalf("%+v; want asked.code == 0", asked)
	}
	checkOutput(t, asked.out, want...)
	if r := execute(t, broker, message, "trace", "WEATHER", "--message", "-", "-o", "csv"); r.code != 0 || !strings.HasPrefix(r.out, "Subscription,Rule,Verdict,Part,Had,Changes,Filter\n") || strings.Count(r.out, "\n") != 7 {
		t.Errorf(`%+v; want r.code == 0 && strings.HasPrefix(r.out, "Subscription,Rule,Verdict,Part,Had,Changes,Filter\n") && strings.Count(r.out, "\n") == 7`, r)
	}
	for _, subscription := range []string{"all", "storms", "odd"} {
		if r := execute(t, broker, "", "peek", "weather/Subscriptions/"+subscription); r.code != 0 || r.out != "" {
			t.Errorf(`%s: %+v; want r.code == 0 && r.out == ""`, subscription, r)
		}
	}
	// And that is what happens.
	if r := execute(t, broker, "", "send", "weather", "--body", "x", "--subject", "forecast", "--property", "wind:int=17", "--property", "region=coast"); r.code != 0 {
		t.Fatalf("%+v; want r.code == 0", r)
	}
	for subscription, gets := range map[string]bool{"all": true, "storms": true, "odd": false, "calm": false, "inland": false, "broken": false} {
		if r := execute(t, broker, "", "peek", "weather/Subscriptions/"+subscription); r.code != 0 || (r.out != "") != gets {
			t.Errorf(`%s: %+v; want r.code == 0 && (r.out != "") == gets`, subscription, r)
		}
	}
	// what peek prints can be traced
	peeked := execute(t, broker, "", "peek", "weather/Subscriptions/all", "-o", "json")
	if r := execute(t, broker, peeked.out, "trace", "weather", "--message", "-"); r.code != 0 || !strings.Contains(r.out, "2 of 6 subscriptions") {
		t.Errorf("%+v\n%+v; want r.code == 0 && strings.Contains(r.out, \"2 of 6 subscriptions\")", r, peeked)
	}
	stop()
	if r := execute(t, "", "", "trace", "weather", "--message", file, "--data", data); r.code != 0 || r.out != asked.out {
		t.Errorf("%+v\nthe broker said\n%s", r, asked.out)
	}
}

func TestTraceRefused(t *testing.T) {
	broker := startBroker(t)
	weather(t, broker)
	const message = `{"properties": {"wind": 17}}`
	for _, c := range []struct {
		stdin, text string
		code        int
		args        []string
	}{
		{message, "missing topic or message", 2, []string{"weather"}},
		{message, "is not a topic", 2, []string{"weather#1", "--message", "-"}},
		{`{"propertys": {}}`, "propertys", 2, []string{"weather", "--message", "-"}},
		{`{"properties": {"a": [1]}}`, "a value must be a string", 2, []string{"weather", "--message", "-"}},
		{`{"properties": {"a": {"type": "uuid", "value": "1"}}}`, `"1" is not a valid uuid`, 2, []string{"weather", "--message", "-"}},
		{`{} {}`, "more than one", 2, []string{"weather", "--message", "-"}},
		{`{}`, "is a queue", 2, []string{"orders", "--message", "-"}},
		{`{}`, "is a subscription", 2, []string{"weather/Subscriptions/all", "--message", "-"}},
		{`{}`, "othing is known", 1, []string{"nothing", "--message", "-"}},
		{`{"properties": {"a": "` + strings.Repeat("x", 9000) + `"}}`, "for message 8192 bytes", 2, []string{"weather", "--message", "-"}},
		{`{}`, "no such file", 2, []string{"weather", "--message", filepath.Join(t.TempDir(), "nothing")}},
	} {
		if r := execute(t, broker, c.stdin, append([]string{"trace"}, c.args...)...); r.code != c.code || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%s %q: %+v; want r.code == c.code && strings.Contains(r.errOut, c.text)", c.stdin, c.args, r)
		}
	}
}
