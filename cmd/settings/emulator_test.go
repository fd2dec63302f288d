package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const oneQueue = `{"Queues":[{"Name":"one"}]}`

// emulated is a start with variables of the emulator.
type emulated struct {
	name      string
	file      string
	env       []string
	flags     map[string][]string
	addresses string
	first     string // entity
	problem   string
}

// emulatedStarts are the starts of TestEmulatorVariables. inFile is the name of a file that names
// the sample, whose content is sample.
func emulatedStarts(inFile, sample string) []emulated {
	return []emulated{
		{name: "none"},
		{name: "of the database", env: []string{"ACCEPT_EULA", "Y", "SQL_SERVER", "sqledge", "MSSQL_SA_PASSWORD", "MARKER", "SQL_WAIT_INTERVAL", "0"}},
		{name: "of the port", env: []string{"EMULATOR_HTTP_PORT", "5301"}, addresses: "127.0.0.1:5672 127.0.0.1:5301"},
		{name: "empty ones", env: []string{"EMULATOR_HTTP_PORT", "", "CONFIG_JSON", "", "CONFIG_PATH", ""}},
		{name: "no port", env: []string{"EMULATOR_HTTP_PORT", "x"}, problem: `EMULATOR_HTTP_PORT: "x" is not a port from 1 to 65535`},
		{name: "port 0", env: []string{"EMULATOR_HTTP_PORT", "0"}, problem: `EMULATOR_HTTP_PORT: "0" is not a port from 1 to 65535`},
		{name: "the port of AMQP", env: []string{"EMULATOR_HTTP_PORT", "5672"}, problem: `listen: "127.0.0.1:5672" is listed twice`},
		{name: "the port, with addresses given", env: []string{"EMULATOR_HTTP_PORT", "5301"}, flags: map[string][]string{"listen": {"127.0.0.1:1"}}, addresses: "127.0.0.1:1"},
		{name: "the port, with the emulator's given", env: []string{"EMULATOR_HTTP_PORT", "5301", "LEDGERBUS_LISTEN", "127.0.0.1:5672,127.0.0.1:5300/any"}, addresses: "127.0.0.1:5672 127.0.0.1:5301/any"},
		{name: "a file that need not be there, and is", env: []string{"LEDGERBUS_ENTITIES_IF_PRESENT", "testdata/sample.json"}, first: "queue.1"},
		{name: "a file that need not be there, and is not", env: []string{"LEDGERBUS_ENTITIES_IF_PRESENT", "testdata/nowhere.json"}, first: "queue.1"},
		{name: "a file that need not be there, and is not, with a queue", env: []string{"LEDGERBUS_ENTITIES_IF_PRESENT", "testdata/nowhere.json", "LEDGERBUS_QUEUE", "mine"}, first: "mine"},
		{name: "a file that need not be there, and is not, in production", env: append([]string{"LEDGERBUS_ENTITIES_IF_PRESENT", "testdata/nowhere.json", "LEDGERBUS_MODE", "production"}, ownKey...), addresses: "127.0.0.1:5672"},
		{name: "a file that need not be there, and cannot be read", env: []string{"LEDGERBUS_ENTITIES_IF_PRESENT", "testdata"}, problem: "entity file: read testdata: is a directory"},
		{name: "a file that need not be there, under one that is named", env: []string{"LEDGERBUS_ENTITIES_IF_PRESENT", "testdata/sample.json", "LEDGERBUS_ENTITIES_JSON", oneQueue}, first: "one"},
		{name: "a file that need not be there, under the config file's", file: inFile, env: []string{"LEDGERBUS_ENTITIES_IF_PRESENT", "testdata/broken.json"}, first: "queue.1"},
		{name: "a file", env: []string{"CONFIG_PATH", "testdata/sample.json"}, first: "queue.1"},
		{name: "a file's content", env: []string{"CONFIG_JSON", sample}, first: "queue.1"},
		{name: "a file's content in our variable", env: []string{"LEDGERBUS_ENTITIES_JSON", oneQueue}, first: "one"},
		{name: "both variables", env: []string{"CONFIG_JSON", sample, "LEDGERBUS_ENTITIES_JSON", oneQueue}, first: "one"},
		{name: "over the config file", file: inFile, env: []string{"CONFIG_JSON", oneQueue}, first: "one"},
		{name: "under a flag", env: []string{"CONFIG_JSON", oneQueue}, flags: map[string][]string{"entities": {"testdata/sample.json"}}, first: "queue.1"},
		{name: "with a file", env: []string{"CONFIG_JSON", oneQueue, "CONFIG_PATH", "testdata/sample.json"}, problem: "CONFIG_JSON: given together with CONFIG_PATH; one of them is enough"},
		{name: "with a file of ours", env: []string{"CONFIG_JSON", oneQueue, "LEDGERBUS_ENTITIES", "x"}, problem: "CONFIG_JSON: given together with LEDGERBUS_ENTITIES; one of them is enough"},
		{name: "with a mistake", env: []string{"CONFIG_JSON", "{\n\"Queue\": []}"}, problem: "CONFIG_JSON:1: UserConfig: missing; without it, Queues and Topics may be at the top of the file\nCONFIG_JSON:2: Queue: unknown key; known are $schema, UserConfig"},
		{name: "with keys", env: []string{"CONFIG_JSON", `{"Queues":[{"Name":"one","Properties":{"AuthorizationRules":[{"KeyName":"a","Rights":["Send"],"PrimaryKey":"k"}]}}]}`}, first: "one"},
	}
}

func (c *emulated) check(t *testing.T) {
	s, err := Load(Sources{File: c.file, Env: environment(c.env...), Flags: c.flags})
	if c.problem != "" || err != nil {
		if err == nil || err.Error() != c.problem {
			t.Fatalf("got  %v\nwant %s", err, c.problem)
		}
		return
	}
	if c.addresses == "" {
		c.addresses = "127.0.0.1:5672 127.0.0.1:5300"
	}
	if got := strings.Join(s.Listening.Addresses, " "); got != c.addresses {
		t.Errorf("listens on %s", got)
	}
	var first string
	if len(s.Entities.Put) > 0 {
		first = s.Entities.Put[0].Path
	}
	if first != c.first {
		t.Errorf("the first entity is %q", first)
	}
}

// The emulator's variables have the emulator's meaning, or no effect.
func TestEmulatorVariables(t *testing.T) {
	t.Parallel()
	sample, err := os.ReadFile("testdata/sample.json")
	if err != nil {
		t.Fatal(err)
	}
	inFile := write(t, "c.yaml", "entities: testdata/sample.json\n", 0o644)
	for _, c := range emulatedStarts(inFile, string(sample)) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
	plain, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	database, err := Load(Sources{Env: environment("ACCEPT_EULA", "Y", "SQL_SERVER", "s", "MSSQL_SA_PASSWORD", "MARKER", "SQL_WAIT_INTERVAL", "15")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, database, cmp.AllowUnexported(Entities{}, Secret{})); diff != "" {
		t.Errorf("variables about a database change something:\n%s", diff)
	}
}

// A queue of --queue that is a topic in the file is an error.
func TestQueueThatIsATopic(t *testing.T) {
	t.Parallel()
	_, err := Load(Sources{Flags: map[string][]string{"entities": {"testdata/sample.json"}, "queue": {"TOPIC.1"}}})
	if err == nil || !strings.HasPrefix(err.Error(), `--queue: "TOPIC.1" is a topic: testdata/sample.json:`) {
		t.Errorf("%+v; want err != nil && strings.HasPrefix(err.Error(), `--queue: \"TOPIC.1\" is a topic: testdata/sample.json:`)", err)
	}
}

// Keys that generators of entity files add to a rule have no effect, but their values need the
// right type.
func TestKeysOfNoEffect(t *testing.T) {
	t.Parallel()
	const file = `{"Topics":[{"Name":"t","Subscriptions":[{"Name":"s","Rules":[
		{"Name":"a","Properties":{"FilterType":"Correlation","CorrelationFilter":{"Label":"x","RequiresPreprocessing":%s}}},
		{"Name":"b","Properties":{"FilterType":"Sql","SqlFilter":{"SqlExpression":"1=1","CompatibilityLevel":%s,"RequiresPreprocessing":true},
			"Action":{"SqlExpression":"SET a = 1","CompatibilityLevel":20,"RequiresPreprocessing":false}}}]}]}]}`
	for _, c := range []struct{ preprocessing, level, problem string }{
		{"false", "20", ""},
		{`"no"`, "20", "must be true or false"},
		{"true", "twenty", "invalid"},
		{"true", `"20"`, "must be a number"},
	} {
		content := fmt.Sprintf(file, c.preprocessing, c.level)
		s, err := Load(Sources{Env: environment("LEDGERBUS_ENTITIES_JSON", content)})
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("%s, %s: %v", c.preprocessing, c.level, err)
		case c.problem == "" && len(s.Entities.Put[1].Rules) != 2:
			t.Errorf("%d rules", len(s.Entities.Put[1].Rules))
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s, %s: got %v, want a text with %q", c.preprocessing, c.level, err, c.problem)
		}
	}
}

// unknownKeys is a file with keys that files of the emulator's users have and the emulator ignores.
const unknownKeys = `{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Properties": {"MaxAllowedConnections": 100},
"Queues": [{"Name": "one", "MaxDeliveryCount": 5, "Properties": {"lockDuration": "PT5S", "MaxDeliveryCount": null}}],
"Topics": [{"Name": "two", "Properties": {"MaxDeliveryCount": 5}, "Subscriptions": [{"Name": "s", "Properties": {
"IsClientAffine": true, "IsClientAffine": true, "ClientAffineProperties": {"ClientId": "c"}, "DuplicateDetectionHistoryTimeWindow": "PT1M"},
"Rules": [{"Name": "r", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"}, "CorrelationFilter": {}}}]}]}]}],
"Logging": {"Type": "File", "Level": "Debug"}}}`

// unknownOnes are the lines about these keys, with %s for the file.
var unknownOnes = strings.TrimSpace(`
%[1]s:1: UserConfig.Namespaces[0].Properties: unknown key; known are Name, Queues, Topics
%[1]s:2: UserConfig.Namespaces[0].Queues[0].MaxDeliveryCount: unknown key; it belongs in "Properties"
%[1]s:2: UserConfig.Namespaces[0].Queues[0].Properties.lockDuration: unknown key; the closest is "LockDuration"
%[1]s:3: UserConfig.Namespaces[0].Topics[0].Properties.MaxDeliveryCount: a topic does not have this property
%[1]s:4: UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Properties.IsClientAffine: unknown key
%[1]s:4: UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Properties.IsClientAffine: unknown key
%[1]s:4: UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Properties.ClientAffineProperties: unknown key
%[1]s:4: UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Properties.DuplicateDetectionHistoryTimeWindow: a subscription does not have this property
%[1]s:5: UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[0].Properties.CorrelationFilter: does not go together with FilterType "Sql"
%[1]s:6: UserConfig.Logging.Level: unknown key; known are Type`)

// MA-149: in the emulator's place each unknown key is a warning. MA-150: in our own files it is an
// error, and also in the emulator's if something else is wrong.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	file := write(t, "e.json", unknownKeys, 0o644)
	wrong := strings.Replace(unknownKeys, `"Name": "two"`, `"Name": "ONE"`, 1)
	for _, c := range []struct {
		name   string
		from   Sources
		where  string
		strict bool
	}{
		{"CONFIG_PATH", Sources{Env: environment("CONFIG_PATH", file)}, file, false},
		{"CONFIG_JSON", Sources{Env: environment("CONFIG_JSON", unknownKeys)}, "CONFIG_JSON", false},
		{"the emulator's path", Sources{Env: environment(presentVariable, file)}, file, false},
		{"--entities", Sources{Flags: map[string][]string{"entities": {file}}, Env: environment("CONFIG_JSON", unknownKeys)}, file, true},
		{"LEDGERBUS_ENTITIES", Sources{Env: environment("LEDGERBUS_ENTITIES", file, "CONFIG_PATH", "nowhere")}, file, true},
		{"LEDGERBUS_ENTITIES_JSON", Sources{Env: environment(inlineVariable, unknownKeys)}, inlineVariable, true},
		{"the config file", Sources{File: write(t, "c.yaml", "entities: "+file+"\n", 0o644)}, file, true},
	} {
		s, err := Load(c.from)
		want := fmt.Sprintf(unknownOnes, c.where)
		if first, rest, _ := strings.Cut(want, "\n"); c.strict {
			if want = first + strictness + "\n" + rest; err == nil || err.Error() != want {
				t.Errorf("%s: got\n%v\nwant\n%s", c.name, err, want)
			}
			continue
		}
		if err != nil || s.Entities.Ignored.Error() != want || len(s.Entities.Put) != 3 || s.Entities.Put[0].Properties.MaxDeliveryCount != 3 {
			t.Errorf("%s: got\n%v, %v, %v\nwant\n%s", c.name, err, s.Entities.Put, s.Entities.Ignored, want)
		}
	}
	_, err := Load(Sources{Env: environment("CONFIG_JSON", wrong)})
	if err == nil || strings.Count(err.Error(), "\n") != 10 || !strings.Contains(err.Error(), `Topics[0].Name: a queue named "one" exists already`) || strings.Contains(err.Error(), strictness) {
		t.Errorf("with something else that is wrong: %v", err)
	}
}

// MA-151: outside development mode, properties that our own files leave out have the service's
// defaults. MA-152: the emulator's defaults are named where they are used, once for each kind.
func TestDefaultsOfAFile(t *testing.T) {
	t.Parallel()
	const content = `{"Queues": [{"Name": "plain"}, {"Name": "more", "Properties": {"MaxDeliveryCount": 5}}],
		"Topics": [{"Name": "t", "Properties": {"DefaultMessageTimeToLive": "PT2H", "DuplicateDetectionHistoryTimeWindow": "PT1M"},
		"Subscriptions": [{"Name": "s", "Properties": {"MaxDeliveryCount": 3}}]}]}`
	file := write(t, "e.json", content, 0o644)
	const used = "%[1]s: each queue that leaves it out has the emulator's default: MaxDeliveryCount 3, DefaultMessageTimeToLive PT1H, DuplicateDetectionHistoryTimeWindow PT20S\n" +
		"%[1]s: each subscription that leaves it out has the emulator's default: DefaultMessageTimeToLive PT1H"
	const emulators, services = "3 PT1H, 5 PT1H, 0 PT2H, 3 PT1H", "10 P10675199DT2H48M5.4775807S, 5 P10675199DT2H48M5.4775807S, 0 PT2H, 3 P10675199DT2H48M5.4775807S"
	flags := map[string][]string{"entities": {file}}
	for _, c := range []struct {
		name  string
		flags map[string][]string
		env   []string
		want  string
		used  string // where
	}{
		{"--entities in development mode", flags, nil, emulators, file},
		{"--entities in production", flags, []string{"LEDGERBUS_MODE", "production"}, services, ""},
		{"LEDGERBUS_ENTITIES_JSON in production", nil, []string{"LEDGERBUS_MODE", "production", inlineVariable, content}, services, ""},
		{"CONFIG_PATH in production", nil, []string{"LEDGERBUS_MODE", "production", "CONFIG_PATH", file}, emulators, file},
		{"CONFIG_JSON in production", nil, []string{"LEDGERBUS_MODE", "production", "CONFIG_JSON", content}, emulators, "CONFIG_JSON"},
		{"the emulator's path in production", nil, []string{"LEDGERBUS_MODE", "production", presentVariable, file}, emulators, file},
	} {
		s, err := Load(Sources{Env: environment(append(c.env, ownKey...)...), Flags: c.flags})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for _, e := range s.Entities.Put {
			got = append(got, fmt.Sprint(e.Properties.MaxDeliveryCount, " ", FormatDuration(e.Properties.DefaultMessageTimeToLive)))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
		want := ""
		if c.used != "" {
			want = fmt.Sprintf(used, c.used)
		}
		if text := strings.Join(s.Entities.Used, "\n"); text != want {
			t.Errorf("%s: named\n%s\nwant\n%s", c.name, text, want)
		}
	}
}

// shown prints an entity file as the broker reads it: the entities with their rules and the
// properties that differ from the emulator's defaults, the keys that it ignores, and the defaults
// that it names.
func shown(s *Settings) string {
	var b strings.Builder
	for _, e := range s.Entities.Put {
		fmt.Fprintf(&b, "%s %s", strings.ToLower(e.Kind.String()), e.Path)
		defaults := emulatorDefaults(e.Kind)
		for _, p := range properties {
			if is, usual := p.text(&e.Properties), p.text(&defaults); p.of.has(e.Kind) && p.name != accessProperty && is != usual {
				fmt.Fprintf(&b, " %s=%s", p.name, is)
			}
		}
		for i := range e.Rules {
			fmt.Fprintf(&b, "\n  %s %s", e.Rules[i].Name, ruleText(&e.Rules[i]))
		}
		b.WriteString("\n")
	}
	for _, key := range s.Entities.Ignored {
		fmt.Fprintf(&b, "ignored: %s\n", key)
	}
	for _, line := range s.Entities.Used {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// MA-156: configuration files of all published shapes work in the emulator's place.
func TestFilesOfTheEmulatorsUsers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/emulator/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		s, err := Load(Sources{Env: environment(presentVariable, file)})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		text := strings.ReplaceAll(shown(&s), file+":", filepath.Base(file)+":")
		fmt.Fprintf(&all, "== %s\n%s", filepath.Base(file), text)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inline, err := Load(Sources{Env: environment("CONFIG_JSON", string(content))})
		if err != nil {
			t.Errorf("%s as CONFIG_JSON: %v", file, err)
		} else if diff := cmp.Diff(s.Entities.Put, inline.Entities.Put, revealed); diff != "" {
			t.Errorf("%s as CONFIG_JSON (-file +variable):\n%s", file, diff)
		}
	}
	golden(t, "emulator.txt", all.String())
}

// MA-155: the emulator's sample, as it is documented.
func TestSample(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{Env: environment(presentVariable, "testdata/nowhere.json")})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
queue queue.1
topic topic.1
subscription topic.1/Subscriptions/subscription.1
  app-prop-filter-1 {"FilterType":"Correlation","CorrelationFilter":{"CorrelationId":"id1","MessageId":"msgid1","To":"xyz","ReplyTo":"someQueue","Label":"subject1","SessionId":"session1","ReplyToSessionId":"sessionId","ContentType":"application/text"}}
subscription topic.1/Subscriptions/subscription.2
  user-prop-filter-1 {"FilterType":"Correlation","CorrelationFilter":{"Properties":{"prop1":"value1"}}}
subscription topic.1/Subscriptions/subscription.3
subscription topic.1/Subscriptions/subscription.4
  sql-filter-1 {"FilterType":"Sql","SqlFilter":{"SqlExpression":"sys.MessageId = '123456' AND userProp1 = 'value1'"},"Action":{"SqlExpression":"SET sys.To = 'Entity'"}}
`, "\n")
	if diff := cmp.Diff(want, shown(&s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
