package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

// namespaces runs a test with each namespace on which the commands must work alike.
func namespaces(t *testing.T, run func(t *testing.T, connection string)) {
	t.Run("other", func(t *testing.T) {
		_, connection := startOther(t, "Standard")
		run(t, connection)
	})
	t.Run("broker", func(t *testing.T) {
		run(t, startBroker(t))
	})
}

// steps runs commands in turn in this process, and compares exit code and output.
type steps struct {
	t          *testing.T
	connection string
}

func (s steps) run(code int, want string, args ...string) string {
	s.t.Helper()
	var out bytes.Buffer
	a := app()
	a.Reader, a.Writer, a.ErrWriter = strings.NewReader(""), &out, &out
	err := a.RunContext(s.t.Context(), flagsFirst(a.Commands, slices.Concat([]string{"ledgerbus"}, args, []string{"--connection-string", s.connection})))
	report(&out, err)
	got := strings.TrimSpace(out.String())
	if exit := exitCode(err); exit != code || want != "…" && got != want {
		s.t.Errorf("%v: exit code %d, want %d (-want +got):\n%s", args, exit, code, cmp.Diff(want, got))
	}
	return got
}

func TestQueues(t *testing.T) {
	namespaces(t, func(t *testing.T, connection string) {
		s := steps{t, connection}
		s.run(0, "created queue dead", "queue", "create", "dead")
		s.run(0, "created queue billing/eu", "queue", "create", "Billing/eu", "--lock-duration", "30s", "--requires-session", "--forward-dead-lettered-messages-to", "dead", "--user-metadata", "a\tb")
		s.run(1, "ledgerbus: create queue billing/EU: Conflict. (status 409, sub-code 40900)", "queue", "create", "billing/EU")
		if got := s.run(0, "…", "queue", "show", "billing/eu"); !strings.Contains(got, "\nlock duration                         30s\n") || !strings.Contains(got, "\nrequires session                      yes\n") ||
			!strings.Contains(got, "\nforward dead lettered messages to     dead\n") || !strings.Contains(got, "\nuser metadata                         a\\tb\n") || !strings.HasPrefix(got, "name                                  billing/eu\n") {
			t.Errorf("shown:\n%s", got)
		}
		s.run(0, "updated queue billing/eu", "queue", "update", "billing/eu", "--max-delivery-count", "3", "--requires-session=true", "--status", "senddisabled", "--forward-dead-lettered-messages-to", "")
		got := s.run(0, "…", "queue", "show", "billing/eu", "-o", "json")
		for _, want := range []string{`"name":"billing/eu","status":"SendDisabled","lockDuration":"PT30S","maxDeliveryCount":3,`, `"forwardDeadLetteredMessagesTo":"",`, `"userMetadata":"a\tb","accessRules":[],"messages":0,`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
		s.run(2, "ledgerbus: nothing to change; give a flag for each property to change", "queue", "update", "dead")
		s.run(0, "created queue third", "queue", "create", "third", "--access-rule", "producer=Send", "--access-rule", "both=send,LISTEN")
		keys := s.run(0, "…", "queue", "show", "third", "-o", "json", "--with-keys")
		if hidden := s.run(0, "…", "queue", "show", "third", "-o", "json"); !strings.Contains(hidden, `"accessRules":[{"name":"producer","rights":["Send"]},{"name":"both","rights":["Send","Listen"]}]`) {
			t.Errorf("shown: %s", hidden)
		}
		s.run(0, "updated queue third", "queue", "update", "third", "--remove-access-rule", "BOTH", "--access-rule", "producer=Send,Listen")
		_, key, _ := strings.Cut(keys, `"primaryKey":"`)
		if now := s.run(0, "…", "queue", "show", "third", "--with-keys"); len(key) < 44 || !strings.Contains(now, "producer=Send,Listen (primary key "+key[:44]) || strings.Contains(now, "both") {
			t.Errorf("shown:\n%s", now)
		}
		if list := s.run(0, "…", "queue", "list"); !strings.HasPrefix(list, "NAME        STATUS        ACTIVE  DEAD LETTER  SCHEDULED  TRANSFER  TRANSFER DEAD LETTER  SIZE BYTES  FORWARD TO\n") ||
			!strings.Contains(list, "\nbilling/eu  SendDisabled       0            0          0         0                     0") || !strings.Contains(list, "\nthird       Active ") {
			t.Errorf("list:\n%s", list)
		}
		if list := s.run(0, "…", "queue", "list", "-o", "csv"); !strings.HasPrefix(list, "name,status,lockDuration,") || !strings.Contains(list, "\nthird,Active,PT1M,10,") {
			t.Errorf("list:\n%s", list)
		}
		s.run(1, "ledgerbus: show topic third: no entity has this name; it is a queue (status 404)", "topic", "delete", "third", "--confirm", "third")
		s.run(1, "ledgerbus: show queue fourth: no entity has this name (status 404)", "queue", "update", "fourth", "--lock-duration", "5s")
		host := strings.Split(strings.TrimPrefix(connection, "Endpoint=sb://"), ";")[0]
		s.run(2, "ledgerbus: deleting queue third at "+host+" loses 0 messages: nothing was done; add --confirm third to confirm", "queue", "delete", "third")
		s.run(2, "ledgerbus: deleting queue third at "+host+" loses 0 messages: nothing was done because \"dead\" is not \"third\"", "queue", "delete", "third", "--confirm", "dead")
		s.run(0, "deleted queue third with 0 messages", "queue", "delete", "third", "--confirm", "third")
		s.run(1, "ledgerbus: show queue third: no entity has this name (status 404)", "queue", "show", "third")
	})
}

func TestTopicsAndRules(t *testing.T) {
	namespaces(t, func(t *testing.T, connection string) {
		s := steps{t, connection}
		s.run(0, "created topic events", "topic", "create", "events", "--default-message-time-to-live", "14d")
		s.run(0, "created subscription all of events", "subscription", "create", "events", "all")
		s.run(0, "created subscription eu of events", "subscription", "create", "events/Subscriptions/eu", "--sql", "region = @r", "--param", "@r=eu", "--rule", "first", "--dead-lettering-on-filter-error=false")
		s.run(0, "created topic more", "topic", "create", "more")
		s.run(0, "created subscription x of more", "subscription", "create", "more", "x", "--forward-to", "events")
		s.run(0, "created rule big of events/Subscriptions/eu: qty > @min", "rule", "create", "events", "eu", "big", "--sql", "qty > @min", "--param", "@min=int:5", "--action", "SET size = @s", "--action-param", "@s=large, very")
		s.run(0, "created rule label of events/Subscriptions/eu: label=a,b, property.n=int:5", "rule", "create", "events", "eu", "label", "--correlation", "label=a,b", "--correlation", "property.n=int:5")
		s.run(0, "created rule none of events/Subscriptions/eu: matches nothing", "rule", "create", "events", "eu", "none", "--match-none")
		s.run(0, "NAME   TYPE               FILTER                       PARAMETERS  ACTION\n"+
			"big    SqlFilter          qty > @min                   @min=int:5  SET size = @s\n"+
			"first  SqlFilter          region = @r                  @r=eu\n"+
			"label  CorrelationFilter  label=a,b, property.n=int:5\n"+
			"none   FalseFilter        matches nothing", "rule", "list", "events", "eu")
		s.run(0, "updated rule big of events/Subscriptions/eu: qty > @min", "rule", "update", "events", "eu", "big", "--action", "", "--param", "@min=int:6")
		if got := s.run(0, "…", "rule", "show", "events", "eu", "big", "-o", "json"); !strings.HasPrefix(got, `{"topic":"events","subscription":"eu","name":"big","type":"SqlFilter","filter":"qty > @min","correlation":[],"parameters":["@min=int:6"],"action":"","actionParameters":[],`) {
			t.Errorf("rule: %s", got)
		}
		host := strings.Split(strings.TrimPrefix(connection, "Endpoint=sb://"), ";")[0]
		s.run(2, "ledgerbus: deleting rule first of events/Subscriptions/eu at "+host+" stops delivery of the messages that match it (region = @r): nothing was done; add --confirm first to confirm", "rule", "delete", "events", "eu", "first")
		s.run(0, "deleted rule first of events/Subscriptions/eu", "rule", "delete", "events/Subscriptions/eu", "first", "--confirm", "first")
		if got := s.run(0, "…", "subscription", "list"); len(strings.Split(got, "\n")) != 4 || !strings.Contains(got, "\nmore    x     Active ") || !strings.HasSuffix(got, " events") {
			t.Errorf("subscriptions:\n%s", got)
		}
		if got := s.run(0, "…", "subscription", "list", "events", "-o", "json"); strings.Count(got, `{"topic":"events","name":"`) != 2 || strings.Count(got, `"deadLetteringOnFilterError":false`) != 1 {
			t.Errorf("subscriptions:\n%s", got)
		}
		s.run(0, "deleted topic more with 1 subscription and 0 messages", "topic", "delete", "more", "--confirm", "more")
		s.run(0, "deleted subscription all of events with 0 messages", "subscription", "delete", "events", "all", "--confirm", "all")
	})
}

const someEntities = `Queues:
  - Name: source
    Properties: {ForwardTo: sink, MaxDeliveryCount: 7}
  - Name: sink
    Properties: {LockDuration: PT30S, DefaultMessageTimeToLive: P10675199DT2H48M5.4775807S}
Topics:
  - Name: events
    Subscriptions:
      - Name: all
      - Name: unruled
        Rules: []
      - Name: some
        Properties: {RequiresSession: true}
        Rules:
          - {Name: eu, Properties: {FilterType: Correlation, CorrelationFilter: {Label: eu, Properties: {n: 5}}}}
          - {Name: big, Properties: {FilterType: Sql, SqlFilter: {SqlExpression: "qty > 5"}, Action: {SqlExpression: "SET big = TRUE"}}}
`

func TestEntities(t *testing.T) {
	namespaces(t, func(t *testing.T, connection string) {
		host, _, _ := strings.Cut(strings.TrimPrefix(connection, "Endpoint=sb://"), ":")
		f := entityFile{steps{t, connection}, filepath.Join(t.TempDir(), "entities.yaml"), host}
		f.create()
		f.export()
		f.exportUnruled()
		f.change()
		f.prune()
	})
}

// entityFile is a file of entities that is applied to a namespace repeatedly.
type entityFile struct {
	steps
	name string
	host string // of the namespace, to confirm what cannot be undone
}

// run ignores the lines that name the emulator's defaults.
func (f *entityFile) run(code int, want string, args ...string) string {
	f.t.Helper()
	got := f.steps.run(code, "…", args...)
	lines := slices.DeleteFunc(strings.Split(got, "\n"), func(line string) bool { return strings.Contains(line, " has the emulator's default: ") })
	if got = strings.Join(lines, "\n"); want != "…" && got != want {
		f.t.Errorf("%v (-want +got):\n%s", args, cmp.Diff(want, got))
	}
	return got
}

func (f *entityFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.name, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *entityFile) create() {
	t := f.t
	f.write(someEntities)
	// a broker may have some
	there := strings.Count(f.run(0, "…", "queue", "list", "-o", "json"), "\n")
	const summary = "6 to create, 0 to update, 0 to delete"
	if got := f.run(1, "…", "entities", "apply", f.name, "--dry-run", "--exit-code"); !strings.Contains(got, "create queue source\n    MaxDeliveryCount: 7\n") || !strings.HasSuffix(got, summary+"\nledgerbus: there are changes to make") {
		t.Errorf("dry run:\n%s", got)
	}
	if now := strings.Count(f.run(0, "…", "queue", "list", "-o", "json"), "\n"); now != there {
		t.Error("a dry run changed something")
	}
	used := f.name + ": each queue that leaves it out has the emulator's default: MaxDeliveryCount 3, DefaultMessageTimeToLive PT1H, DuplicateDetectionHistoryTimeWindow PT20S\n" +
		f.name + ": each topic that leaves it out has the emulator's default: DefaultMessageTimeToLive PT1H, DuplicateDetectionHistoryTimeWindow PT20S\n" +
		f.name + ": each subscription that leaves it out has the emulator's default: MaxDeliveryCount 3, DefaultMessageTimeToLive PT1H\n"
	// MA-152
	if got := f.steps.run(0, "…", "entities", "apply", f.name); !strings.HasPrefix(got, used) || !strings.HasSuffix(got, summary+"\ndone") {
		t.Errorf("apply:\n%s", got)
	}
	f.run(0, "no changes", "entities", "apply", f.name, "--dry-run", "--exit-code")
	f.run(0, "no changes", "entities", "apply", f.name)
	if got := f.run(0, "…", "queue", "show", "source", "-o", "json"); !strings.Contains(got, `"forwardTo":"sink"`) || !strings.Contains(got, `"defaultMessageTimeToLive":"PT1H"`) {
		t.Errorf("source: %s", got)
	}
	f.run(0, "NAME      TYPE        FILTER              PARAMETERS  ACTION\n$Default  TrueFilter  matches everything", "rule", "list", "events", "unruled")
}

// export writes files in both forms that can be applied and change nothing.
func (f *entityFile) export() {
	t := f.t
	for _, name := range []string{"out.json", "out.yml"} {
		out := filepath.Join(filepath.Dir(f.name), name)
		f.run(0, "", "entities", "export", "--file", out)
		// reliability.md S34
		if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want info.Mode().Perm() == 0o600", name, info.Mode(), err)
		}
		f.run(0, "no changes", "entities", "apply", out, "--prune")
	}
	if got := f.run(0, "…", "entities", "export"); !strings.HasPrefix(got, "{\n  \"UserConfig\"") {
		t.Errorf("export:\n%s", got)
	}
}

// exportUnruled writes a subscription without rules in a form in which it still gets nothing.
func (f *entityFile) exportUnruled() {
	t := f.t
	f.run(0, "deleted rule $Default of events/Subscriptions/unruled", "rule", "delete", "events", "unruled", "$Default", "--confirm", "$Default")
	out := filepath.Join(filepath.Dir(f.name), "unruled.yaml")
	f.run(0, "", "entities", "export", "--file", out)
	const made = "update subscription events/Subscriptions/unruled\n    Rules.no-messages: none -> {\"FilterType\":\"False\"}\n0 to create, 1 to update, 0 to delete\ndone"
	f.run(0, made, "entities", "apply", out)
	f.run(0, "no changes", "entities", "apply", out)
	// an empty list deletes no rule either
	f.run(0, "no changes", "entities", "apply", f.name)
	if got := f.run(0, "…", "rule", "list", "events", "unruled"); !strings.Contains(got, "no-messages  FalseFilter") {
		t.Errorf("rules:\n%s", got)
	}
}

var changedEntities = strings.NewReplacer("MaxDeliveryCount: 7", "MaxDeliveryCount: 8", "qty > 5", "qty > 6", "Name: eu,", "Name: us,").Replace(someEntities)

func (f *entityFile) change() {
	f.write(changedEntities)
	diff := "update queue source\n    MaxDeliveryCount: 7 -> 8\n" +
		"update subscription events/Subscriptions/some\n" +
		`    Rules.big: {"FilterType":"Sql","SqlFilter":{"SqlExpression":"qty > 5"},"Action":{"SqlExpression":"SET big = TRUE"}} -> {"FilterType":"Sql","SqlFilter":{"SqlExpression":"qty > 6"},"Action":{"SqlExpression":"SET big = TRUE"}}` + "\n" +
		`    Rules.eu: {"FilterType":"Correlation","CorrelationFilter":{"Label":"eu","Properties":{"n":5}}} -> none` + "\n" +
		`    Rules.us: none -> {"FilterType":"Correlation","CorrelationFilter":{"Label":"eu","Properties":{"n":5}}}` + "\n" +
		"0 to create, 2 to update, 0 to delete\n"
	f.run(2, diff+"ledgerbus: at "+f.host+" this deletes 1 rule of subscriptions that remain: nothing was done; add --confirm "+f.host+" to confirm", "entities", "apply", f.name)
	f.run(0, diff+"done", "entities", "apply", f.name, "--confirm", f.host)
	f.run(0, "no changes", "entities", "apply", f.name)
}

func (f *entityFile) prune() {
	t := f.t
	f.write(strings.Replace(changedEntities, "RequiresSession: true", "RequiresSession: false", 1))
	if got := f.run(1, "…", "entities", "apply", f.name); !strings.HasSuffix(got, "ledgerbus: nothing was done: the file changes properties of events/Subscriptions/some that cannot change after creation; delete it first") {
		t.Errorf("immutable:\n%s", got)
	}
	f.write("Queues: [{Name: sink}]\nTopics: []\n")
	if got := f.run(2, "…", "entities", "apply", f.name, "--prune"); !strings.Contains(got, "\ndelete topic events\n") || !strings.Contains(got, " entities with 0 messages: nothing was done; add --confirm "+f.host) {
		t.Errorf("prune:\n%s", got)
	}
	f.run(0, "…", "entities", "apply", f.name, "--prune", "--confirm", f.host)
	f.run(0, "…", "queue", "show", "sink")
	f.run(0, "no changes", "entities", "apply", f.name, "--prune", "-o", "text")
	if got := f.run(0, "…", "queue", "list", "-o", "json"); strings.Count(got, `"name"`) != 1 {
		t.Errorf("left: %s", got)
	}
}

// A file is applied in the premium tier too, where the defaults differ. Lost messages are counted,
// and programs get JSON.
func TestEntitiesElsewhere(t *testing.T) {
	ns, connection := startOther(t, "Premium")
	s := steps{t, connection}
	file := filepath.Join(t.TempDir(), "entities.yaml")
	if err := os.WriteFile(file, []byte(someEntities), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.run(0, "…", "entities", "apply", file, "-o", "json"); !strings.Contains(got, `{"action":"create","kind":"Queue","path":"source","fields":[{"name":"MaxDeliveryCount","new":"7"},`) {
		t.Errorf("%s; want strings.Contains(got, `{\"action\":\"create\",\"kind\":\"Queue\",\"path\":\"source\",\"fields\":[{\"name\":\"MaxDeliveryCount\",\"new\":\"7\"},`)", got)
	}
	before := ns.written()
	(&entityFile{steps: s}).run(0, "no changes", "entities", "apply", file)
	if now := ns.written(); now != before {
		t.Errorf("%d requests changed something", now-before)
	}
	ns.hold("sink", document.Runtime{Active: 2, DeadLetter: 1})
	ns.hold("events/Subscriptions/some", document.Runtime{Active: 3, Transfer: 1})
	s.run(2, "ledgerbus: deleting topic events at "+strings.Split(strings.TrimPrefix(connection, "Endpoint=sb://"), ";")[0]+
		" loses 3 subscriptions and 4 messages (3 active, 1 being forwarded): nothing was done; add --confirm events to confirm", "topic", "delete", "events")
	s.run(0, "deleted queue sink with 3 messages (2 active, 1 dead-lettered)", "queue", "delete", "sink", "--confirm", "sink")
}

// P24: the broker reports no counts for an entity whose partition is refused. The entity is listed
// with the others, not as empty, and can still be deleted.
func TestCountsThatAreUnknown(t *testing.T) {
	ns, connection := startOther(t, "Standard")
	host := strings.Split(strings.TrimPrefix(connection, "Endpoint=sb://"), ";")[0]
	s := steps{t, connection}
	for _, create := range []string{"queue create lost", "queue create sound", "topic create events", "subscription create events some", "subscription create events more"} {
		s.run(0, "…", strings.Fields(create)...)
	}
	unknown := document.Runtime{Unknown: true}
	ns.hold("lost", unknown)
	ns.hold("sound", document.Runtime{Active: 2, SizeBytes: 7})
	for _, path := range []string{"events", "events/Subscriptions/some"} {
		ns.hold(path, unknown)
	}
	ns.hold("events/Subscriptions/more", document.Runtime{Active: 3})
	s.run(0, "NAME   STATUS  ACTIVE  DEAD LETTER  SCHEDULED  TRANSFER  TRANSFER DEAD LETTER  SIZE BYTES  FORWARD TO\n"+
		"lost   Active  ?       ?            ?          ?         ?                     ?\n"+
		"sound  Active  2       0            0          0         0                     7", "queue", "list")
	if got := strings.Fields(s.run(0, "…", "queue", "show", "lost")); got[slices.Index(got, "messages")+1] != "?" {
		t.Errorf(`%s; want got[slices.Index(got, "messages")+1] == "?"`, got)
	}
	if got := s.run(0, "…", "queue", "show", "lost", "-o", "json"); !strings.HasPrefix(got, `{"name":"lost",`) || strings.Contains(got, "active") || strings.Contains(got, "sizeBytes") {
		t.Errorf("%s; want strings.HasPrefix(got, `{\"name\":\"lost\",`) && !strings.Contains(got, \"active\") && !strings.Contains(got, \"sizeBytes\")", got)
	}
	if got := s.run(0, "…", "queue", "list", "-o", "csv"); !strings.Contains(got, ",true,false"+strings.Repeat(",", 12)+"\n") || !strings.Contains(got, ",2,2,0,0,0,0,7,") {
		t.Errorf(`%s; want strings.Contains(got, ",true,false"+strings.Repeat(",", 12)+"\n") && strings.Contains(got, ",2,2,0,0,0,0,7,")`, got)
	}
	if got := s.run(0, "…", "entities", "export"); !strings.Contains(got, `"lost"`) || !strings.Contains(got, `"sound"`) {
		t.Errorf("%s; want strings.Contains(got, `\"lost\"`) && strings.Contains(got, `\"sound\"`)", got)
	}
	const undone = ": nothing was done; add --confirm "
	s.run(2, "ledgerbus: deleting queue lost at "+host+" loses an unknown number of messages"+undone+"lost to confirm", "queue", "delete", "lost")
	s.run(2, "ledgerbus: deleting topic events at "+host+" loses 2 subscriptions and at least 3 messages (3 active)"+undone+"events to confirm", "topic", "delete", "events")
	s.run(0, "deleted queue lost with an unknown number of messages", "queue", "delete", "lost", "--confirm", "lost")
}
