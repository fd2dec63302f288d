package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Commands accept the names of items that answers show.
func TestAddresses(t *testing.T) {
	broker := startBroker(t)
	for range 3 {
		if r := execute(t, broker, "", "send", "orders", "--body", "x"); r.code != 0 {
			t.Fatalf("%+v; want r.code == 0", r)
		}
	}
	if r := execute(t, broker, "", "receive", "orders", "--dead-letter"); r.code != 0 {
		t.Fatalf("%+v; want r.code == 0", r)
	}
	for _, c := range []struct {
		args []string
		code int
		text string // expected part of the output
		n    int    // messages
	}{
		{[]string{"peek", "orders"}, 0, "#2  ", 2},
		{[]string{"peek", "orders#3"}, 0, "#3  ", 1},
		{[]string{"peek", "orders/$dlq"}, 0, "#1  ", 1},
		{[]string{"peek", "orders/$dlq#1"}, 0, "#1  ", 1},
		{[]string{"peek", "orders#1"}, 1, "no message #1 in orders", 0},
		{[]string{"peek", "orders#3", "--count", "2"}, 2, "--from, --count and --session cannot be used with the number", 0},
		{[]string{"peek", "@0/8"}, 2, "@0/8 is a place in a log, not an entity", 0},
		{[]string{"peek", "orders/$dead"}, 2, "unknown sub-queue", 0},
		{[]string{"receive", "orders#2"}, 2, "--deferred 2", 0},
		{[]string{"send", "orders#2", "--body", "x"}, 2, "give the entity without a number", 0},
		{[]string{"receive", "orders/$dlq", "--complete"}, 0, "#1  ", 1},
	} {
		r := execute(t, broker, "", c.args...)
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.text) || strings.Count(r.out, "#") != c.n {
			t.Errorf(`%q: %+v; want r.code == c.code && strings.Contains(r.out+r.errOut, c.text) && strings.Count(r.out, "#") == c.n`, c.args, r)
		}
	}
}

// usedWith is a command line with the forms of address that it accepts and refuses.
type usedWith struct {
	args           string // words in capitals are put in
	takes, refuses []string
}

func addressed(place string) []usedWith {
	const queue, dead, one, rain, rainDead = "orders", "orders/$dlq", "orders#2", "weather/Subscriptions/rain", "weather/Subscriptions/rain/$dlq"
	return []usedWith{
		{"peek ADDRESS", []string{queue, dead, one, rain, rainDead}, []string{place}},
		{"send ADDRESS --body x", []string{queue}, []string{one, place}},
		{"queue show ADDRESS", []string{queue, dead, "orders/$transfer/$dlq"}, []string{one, place, "orders/$gone"}},
		{"queue update ADDRESS --max-delivery-count 9", []string{queue}, []string{dead, one, place}},
		{"queue create ADDRESS", []string{"parcels"}, []string{"parcels/$dlq", "parcels#1", place}},
		{"queue delete ADDRESS --confirm parcels", []string{"parcels"}, []string{dead, one, place}},
		{"topic show ADDRESS", []string{"weather", "weather/$transfer/$dlq"}, []string{"weather/$dlq", "weather#1", place}},
		{"subscription show ADDRESS", []string{rain, rainDead}, []string{"weather", rain + "#1", place}},
		{"subscription show weather ADDRESS", []string{"rain", "rain/$dlq"}, []string{"rain#1", place}},
		{"story ADDRESS", []string{one, "orders/$dlq#1"}, []string{queue, dead, place}},
		{"why ADDRESS", []string{dead, "orders#1", "orders/$dlq#1"}, []string{place}},
		{"at ADDRESS", []string{place}, []string{queue, dead, one}},
		{"at now ADDRESS", []string{queue, dead, rain}, []string{one, place}},
		{"diff ADDRESS now", []string{place}, []string{queue, dead, one}},
		{"diff PLACE now ADDRESS", []string{queue, dead, rain}, []string{one, place}},
		{"when orders.dead>0 --since ADDRESS", []string{place}, []string{queue, dead, one}},
		{"audit ADDRESS", []string{queue, dead, rain}, []string{one, place}},
		{"audit --since ADDRESS", []string{place}, []string{queue, dead, one}},
		{"events ADDRESS", []string{queue, dead, rain}, []string{one, place}},
		{"events --until ADDRESS", []string{place}, []string{queue, dead, one}},
		{"trace ADDRESS --message FILE", []string{"weather"}, []string{"weather#1", "weather/$dlq", place}},
		{"log dump DIR --entity ADDRESS", []string{queue, dead, one, rain}, []string{place}},
		{"log dump DIR --from ADDRESS", []string{place, "8"}, []string{queue, dead, one}},
		{"log dump DIR --since ADDRESS", []string{place}, []string{queue, dead, one}},
		{"log dump DIR --until ADDRESS", []string{place}, []string{queue, dead, one}},
		{"log export DIR --format jsonl --into OUT --entity ADDRESS", []string{queue, dead, one, rain}, []string{place}},
		{"log export DIR --format jsonl --into OUT --since ADDRESS", []string{place}, []string{queue, dead, one}},
		{"slice DIR --into OUT --entity ADDRESS", []string{queue, rain}, []string{dead, one, place}},
		{"slice DIR --into OUT --until ADDRESS", []string{place}, []string{queue, dead, one}},
		{"debug DIR -c print --at ADDRESS", []string{place}, []string{queue, dead, one}},
		{"message erase ADDRESS", nil, []string{queue, dead, place}},
	}
}

// Tests which form of address each command accepts, and that it refuses other forms by name before
// it does anything.
func TestAddressesOfAllCommands(t *testing.T) {
	broker := startBroker(t, "data", t.TempDir())
	for _, args := range [][]string{{"send", "orders", "--body", "x"}, {"send", "orders", "--body", "y"}, {"receive", "orders", "--dead-letter"},
		{"topic", "create", "weather"}, {"subscription", "create", "weather", "rain"}} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatal(r)
		}
	}
	message := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(message, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`@\d+/\d+`).FindString(execute(t, broker, "", "audit", "orders").out)
	if place == "" {
		t.Fatal("audit shows no place")
	}
	// while a broker runs, its log is read only up to a second ago
	copied := filepath.Join(t.TempDir(), "copy")
	if r := execute(t, broker, "", "backup", "--into", copied); r.code != 0 {
		t.Fatal(r)
	}
	// texts without the address
	says := regexp.MustCompile(`missing .*; usage: ledgerbus |give the entity without a number`)
	for _, c := range addressed(place) {
		for i, of := range slices.Concat(c.takes, c.refuses) {
			args := strings.Fields(c.args)
			for k, arg := range args {
				args[k] = strings.NewReplacer("ADDRESS", of, "PLACE", place, "DIR", copied, "OUT", filepath.Join(t.TempDir(), "out"), "FILE", message).Replace(arg)
			}
			r, want := execute(t, broker, "", args...), 0
			if i >= len(c.takes) {
				want = 2
			}
			if r.code != want || want == 2 && (r.out != "" || !strings.Contains(r.errOut, of) && !says.MatchString(r.errOut)) {
				t.Errorf("%s of %s: exit code %d, not %d\n%s%s", c.args, of, r.code, want, r.out, r.errOut)
			}
		}
	}
	if r := execute(t, broker, "", "queue", "show", "orders/$dlq", "-o", "json"); !strings.Contains(r.out, `"messages":1`) && !strings.Contains(r.out, `"messages": 1`) {
		t.Error(r)
	}
	if r := execute(t, broker, "", "receive", "orders/$dlq", "--complete"); r.code != 0 {
		t.Fatal(r)
	}
	if r := execute(t, broker, "", "message", "erase", "orders/$dlq#1"); !strings.Contains(r.errOut, "message 1 of orders: The body is not erased yet: it is in an unsealed part of the log") {
		t.Error(r)
	}
	if r := execute(t, broker, "", "audit", "orders"); !strings.Contains(r.out, "  erase-requested orders#1") || strings.Contains(r.out, "  erased ") {
		t.Error(r)
	}
}
