package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func entityFile(t *testing.T, queues ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "queues.json")
	text := `{"UserConfig":{"Namespaces":[{"Name":"n","Queues":[` + "\n" + strings.Join(queues, ",\n") + "\n]}]}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// SM-312, SM-169 (semantics.md 1.3): the next start cannot change the fixed properties of a queue.
func TestFixedPropertiesOfAQueue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	queues := func(orders, lock string) settings.Settings {
		file := entityFile(t, fmt.Sprintf(`{"Name":"orders","Properties":{%s"LockDuration":%q}}`, orders, lock), `{"Name":"other"}`)
		s := load(t, dir, map[string][]string{"entities": {file}})
		return s
	}
	first := start(t, queues("", "PT30S"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, property := range []string{"RequiresSession", "RequiresDuplicateDetection"} {
		s := queues(fmt.Sprintf(`%q:true,`, property), "PT10S")
		_, err := Start(t.Context(), s)
		want := s.Entities.File + ":2: UserConfig.Namespaces[0].Queues[0].Name: The value for the " + property +
			" property of an existing Queue cannot be changed."
		if problems := (settings.Problems)(nil); !errors.As(err, &problems) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	last := start(t, load(t, dir, map[string][]string{"queue": {"unrelated"}}))
	target, err := last.Engine().Resolve("orders")
	if err != nil || target.Entity.Properties.LockDuration != 30*time.Second || target.Entity.Properties.RequiresSession {
		t.Errorf("a refused change left something behind: %+v, %v", target.Entity, err)
	}
}

// MA-130: "Rules": [] in the entity file creates a subscription that gets every message. No start
// deletes a rule that was created later.
func TestEmptyListOfRules(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "entities.json")
	if err := os.WriteFile(file, []byte(`{"Topics":[{"Name":"t","Subscriptions":[{"Name":"s","Rules":[]}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const sub = "t/Subscriptions/s"
	for _, want := range []string{"[$Default]", "[$Default late]"} {
		srv := start(t, load(t, dir, map[string][]string{"entities": {file}}))
		rules, err := srv.Engine().Rules(t.Context(), sub, 0, 10)
		names := []string{}
		for _, r := range rules {
			names = append(names, r.Name)
		}
		if err != nil || fmt.Sprint(names) != want {
			t.Errorf("rules %v, %v; want %s", names, err, want)
		}
		late := engine.PutRule{Subscription: sub, Rule: event.Rule{Name: "late", Filter: event.Filter{Kind: event.FalseFilter}}}
		if _, err := srv.Engine().PutRule(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// MA-149, MA-152: a start logs a warning for each unknown key, and a line for each kind of entity
// that has defaults of the emulator.
func TestStartTellsOfTheEntityFile(t *testing.T) {
	said := captureLog(t)
	env := map[string]string{"CONFIG_JSON": `{"Queues":[{"Name":"a","MaxDeliveryCount":3},{"Name":"b","Properties":{"IsClientAffine":true}}]}`}
	s, err := settings.Load(settings.Sources{
		Env:   func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		Flags: map[string][]string{"data": {t.TempDir()}, "listen": {"127.0.0.1:0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, s)
	text := said.String()
	for want, count := range map[string]int{
		`level=WARN msg="entity file key ignored"`:                                                                          2,
		`where="CONFIG_JSON:1: Queues[0].MaxDeliveryCount" reason="unknown key; it belongs in \"Properties\""`:              1,
		`where="CONFIG_JSON:1: Queues[1].Properties.IsClientAffine" reason="unknown key"`:                                   1,
		`msg="emulator defaults used" entities="CONFIG_JSON: each queue that leaves it out has the emulator's default: Max`: 1,
		`msg="emulator defaults used"`: 1,
	} {
		if got := strings.Count(text, want); got != count {
			t.Errorf("%d times %s, want %d, in\n%s", got, want, count, text)
		}
	}
}

// MA-151, MA-154: outside development mode an existing entity keeps the values that the file omits,
// and a queue of --queue keeps everything in every mode. In development mode the file decides.
func TestEntitiesKeepWhatTheFileLeavesOut(t *testing.T) {
	t.Parallel()
	file := entityFile(t, `{"Name":"filed","Properties":{"LockDuration":"PT30S"}}`)
	for mode, want := range map[string]string{
		"development": "filed: 30s 3 1h0m0s false 0, named: 5m0s 7 2h0m0s true 1",
		"production":  "filed: 30s 7 2h0m0s true 1, named: 5m0s 7 2h0m0s true 1",
	} {
		dir := t.TempDir()
		env := map[string]string{"LEDGERBUS_MODE": mode, "LEDGERBUS_ACCESS_RULES": `[{name: a, rights: [Manage], primary-key: k}]`}
		again := func() *Server {
			s, err := settings.Load(settings.Sources{
				Env:   func(name string) (string, bool) { value, ok := env[name]; return value, ok },
				Flags: map[string][]string{"data": {dir}, "listen": {"127.0.0.1:0"}, "entities": {file}, "queue": {"named"}, "tls": {"off"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return start(t, s)
		}
		srv := again()
		for _, name := range []string{"filed", "named"} {
			e, _ := srv.Engine().Find(name)
			p := e.Properties
			p.LockDuration, p.MaxDeliveryCount, p.DefaultMessageTimeToLive, p.DeadLetteringOnMessageExpiration = 5*time.Minute, 7, 2*time.Hour, true
			p.AccessRules = []event.AccessRule{{Name: "r", Rights: event.Rights{event.Send}, Primary: "a", Secondary: "b"}}
			if _, err := srv.Engine().PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: name, Properties: p}); err != nil {
				t.Fatal(err)
			}
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		srv = again()
		var got []string
		for _, name := range []string{"filed", "named"} {
			e, _ := srv.Engine().Find(name)
			p := e.Properties
			got = append(got, fmt.Sprint(name, ": ", p.LockDuration, " ", p.MaxDeliveryCount, " ", p.DefaultMessageTimeToLive, " ", p.DeadLetteringOnMessageExpiration, " ", len(p.AccessRules)))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: got %s\nwant %s", mode, text, want)
		}
	}
}

// MA-155: a broker that replaces the emulator without a file has the emulator's sample until there
// are other entities. A half-created sample is completed, and changes stay.
func TestSampleEntities(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	again := func(want int) *Server {
		t.Helper()
		s, err := settings.Load(settings.Sources{
			Env: func(name string) (string, bool) {
				return filepath.Join(dir, "none.json"), name == "LEDGERBUS_ENTITIES_IF_PRESENT"
			},
			Flags: map[string][]string{"data": {filepath.Join(dir, "data")}, "listen": {"127.0.0.1:0"}, "tls": {"off"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		srv := start(t, s)
		if got := len(srv.Engine().Entities()); got != want {
			t.Errorf("%d entities, want %d", got, want)
		}
		return srv
	}
	srv := again(6)
	e := srv.Engine()
	queue, _ := e.Find("queue.1")
	p := queue.Properties
	p.MaxDeliveryCount = 7
	const sub = "topic.1/Subscriptions/subscription.4"
	_, err := e.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "queue.1", Properties: p})
	err = errors.Join(err, e.DeleteRule(t.Context(), engine.DeleteRule{Subscription: sub, Name: "sql-filter-1"}))
	if err = errors.Join(err, e.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "topic.1/Subscriptions/subscription.3"}), srv.Close()); err != nil {
		t.Fatal(err)
	}
	srv = again(6)
	e = srv.Engine()
	queue, _ = e.Find("queue.1")
	rules, err := e.Rules(t.Context(), sub, 0, 10)
	if queue.Properties.MaxDeliveryCount != 7 || len(rules) != 0 || err != nil {
		t.Errorf("the second start has put back %d deliveries, rules %v, %v", queue.Properties.MaxDeliveryCount, rules, err)
	}
	_, err = e.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "mine", Properties: engine.DefaultProperties(event.Queue)})
	if err = errors.Join(err, e.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "topic.1"}), srv.Close()); err != nil {
		t.Fatal(err)
	}
	again(2)
}

// SM-321: the maximum number of queues of a namespace, and one more.
func TestTenThousandQueues(t *testing.T) {
	t.Parallel()
	const n = 10_000 - 1 // beside "orders"
	dir := t.TempDir()
	queues := make([]string, n)
	for i := range queues {
		queues[i] = fmt.Sprintf(`{"Name":"team-%d/queue-%d","Properties":{"LockDuration":"PT30S"}}`, i%100, i)
	}
	s := load(t, dir, map[string][]string{"entities": {entityFile(t, queues...)}})
	for _, run := range []string{"first", "second"} {
		began := time.Now()
		srv := start(t, s)
		took := time.Since(began)
		t.Logf("%s start: %s", run, took)
		if took > 30*time.Second { // a second or two without the race detector
			t.Errorf("%s start took %s", run, took)
		}
		if got := len(srv.Engine().Entities()); got != n+1 {
			t.Errorf("%d queues", got)
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Start(t.Context(), load(t, dir, map[string][]string{"queue": {"one-more"}}))
	if problems := (settings.Problems)(nil); !errors.As(err, &problems) || !strings.Contains(err.Error(), "one-more") {
		t.Errorf("one queue more: %v", err)
	}
}

// A change of settings is reported to watchers of entities. A start with the same settings reports
// nothing.
func TestPutEntitiesTellsOfChanges(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), map[string][]string{"queue": {"a", "b", "c"}}))
	var changed []string
	defer srv.Engine().Watch(func(c engine.Change) { changed = append(changed, c.Entity.Path) })()
	longer := engine.DefaultProperties(event.Queue)
	longer.LockDuration = 2 * time.Minute
	sessions := longer
	sessions.RequiresSession = true
	entities, errs := srv.Engine().PutEntities(t.Context(), []engine.PutEntity{
		{Kind: event.Queue, Path: "a", Properties: engine.DefaultProperties(event.Queue)}, {Kind: event.Queue, Path: "B", Properties: longer},
		{Kind: event.Queue, Path: "c", Properties: sessions}, {Kind: event.Queue, Path: "d", Properties: longer},
	})
	if fmt.Sprint(changed) != "[b]" {
		t.Errorf("told of %v", changed)
	}
	for i, want := range []bool{true, true, false, true} {
		if (errs[i] == nil) != want || (entities[i] != nil) != want {
			t.Errorf("queue %d: %v, %v", i, entities[i], errs[i])
		}
	}
	if target, err := srv.Engine().Resolve("d"); err != nil || target.Entity != entities[3] {
		t.Errorf("%v, %v; want target.Entity == entities[3]", target, err)
	}
}

// SM-203, S4-09: a partitioned queue has 16 times its requested size, however it was created, and
// the same file changes nothing at the next start.
func TestOneSizeOfPartitioned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := entityFile(t, `{"Name":"filed","Properties":{"EnablePartitioning":true}}`, `{"Name":"large","Properties":{"EnablePartitioning":true,"MaxSizeInMegabytes":2048}}`,
		`{"Name":"odd","Properties":{"EnablePartitioning":true,"MaxSizeInMegabytes":100}}`, `{"Name":"plain","Properties":{"MaxSizeInMegabytes":2048}}`)
	for range 2 {
		srv := start(t, load(t, dir, map[string][]string{"entities": {file}}))
		for path, want := range map[string]uint32{"filed": 16384, "large": 32768, "odd": 100, "plain": 2048} {
			e, _ := srv.Engine().Find(path)
			if got := e.Properties.MaxSizeMegabytes; got != want {
				t.Errorf("%s: %d MB, want %d", path, got, want)
			}
			if e.UpdatedAt != e.CreatedAt {
				t.Errorf("%s was changed", path)
			}
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
