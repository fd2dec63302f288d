package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ledgerbus/ledgerbus/engine/host"
)

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return file
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Listening.Addresses, " "); got != "127.0.0.1:5672 127.0.0.1:5300" {
		t.Errorf("listens on %s", got)
	}
	if len(s.Access) != 1 || s.Access[0].Name != "RootManageSharedAccessKey" || s.Access[0].Primary.Reveal() != "SAS_KEY_VALUE" {
		t.Errorf("access rules %v", s.Access)
	}
	if s.Mode != Development || s.Storage.Data != "data" || s.Storage.Partitions != 0 || !s.DevelopmentKey() {
		t.Errorf(`%+v; want s.Mode == Development && s.Storage.Data == "data" && s.Storage.Partitions == 0 && s.DevelopmentKey()`, s)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "data: from-file\nlog-level: warn\nlog-format: json\nlisten: [127.0.0.1:1, 127.0.0.1:2]\nlimits:\n  locked: 7\n  idle-timeout: 90s\n  link-idle: 20m\n  buffered-in: 1MiB\n", 0o644)
	s, err := Load(Sources{
		File:  file,
		Env:   environment("LEDGERBUS_LOG_LEVEL", "error", "LEDGERBUS_LISTEN", "127.0.0.1:3, localhost:4", "LEDGERBUS_DATA", "from-env", "LEDGERBUS_PORT", "tcp://1.2.3.4:1", "LEDGERBUS_LIMITS_BUFFERED_IN", "2MiB"),
		Flags: map[string][]string{"data": {"from-flag"}, "limits.locked": {"9"}, "limits.link-idle": {"30m"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Storage.Data != "from-flag" || s.Logging.Level != slog.LevelError || s.Logging.Format != "json" ||
		strings.Join(s.Listening.Addresses, " ") != "127.0.0.1:3 localhost:4" || s.Limits.Locked != 9 || s.Limits.IdleTimeout != 90*time.Second ||
		s.Limits.LinkIdle != 30*time.Minute || s.Limits.BufferedIn != 2<<20 {
		t.Errorf("%+v", s)
	}
}

func TestEmulatorVariableNamesTheEntityFile(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{Env: environment("CONFIG_PATH", "testdata/sample.json"), Flags: map[string][]string{"queue": {"extra", "QUEUE.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range s.Entities.Put {
		names = append(names, fmt.Sprint(q.Path, " ", q.Properties.MaxDeliveryCount))
	}
	if got := strings.Join(names, ", "); got != "queue.1 3, orders/eu 3, states 3, big 2147483647, topic.1 0, Team/Events~1 0, topic.1/Subscriptions/plain 3, "+
		"topic.1/Subscriptions/picky 5, topic.1/Subscriptions/unruled 3, topic.1/Subscriptions/deaf 3, Team/Events~1/Subscriptions/plain 3, extra 10" {
		t.Errorf("%+v, want %+v", got, "queue.1 3, orders/eu 3, states 3, big 2147483647, topic.1 0, Team/Events~1 0, topic.1/Subscriptions/plain 3, "+
			"topic.1/Subscriptions/picky 5, topic.1/Subscriptions/unruled 3, topic.1/Subscriptions/deaf 3, Team/Events~1/Subscriptions/plain 3, extra 10")
	}
}

func TestWhereAQueueWasAskedFor(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{Flags: map[string][]string{"entities": {"testdata/sample.json"}, "queue": {"extra", "BIG"}}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"Orders/EU": "testdata/sample.json:22: UserConfig.Namespaces[0].Queues[1].Name", "extra": "--queue", "other": `entity "other"`,
		"big": "testdata/sample.json:25: UserConfig.Namespaces[0].Queues[3].Name",
	} {
		if got := s.Entities.Where(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

var ownKey = []string{"LEDGERBUS_ACCESS_RULES", `[{name: a, rights: [Manage], primary-key: k}]`}

var problematic = []struct {
	name string
	// %[1]s in want is its name; %[2]s in both is the name of a key file that others may read
	file  string
	mode  os.FileMode
	env   []string
	flags map[string][]string
	want  string
}{
	{name: "file", file: "data: x\ncolour: red\nlimits:\n  legs: 4\n  locked: many\nlisten:\n  - a: b\ndata: y\nlog-format: [text]\nmode: test\n", want: `%[1]s:2: colour: unknown key
%[1]s:4: limits.legs: unknown key
%[1]s:5: limits.locked: "many" is not a whole number from 1 to 10000000
%[1]s:7: listen: must be a list of plain values
%[1]s:8: data: given twice
%[1]s:9: log-format: must be a plain value
%[1]s:10: mode: "test" is neither development nor production`},
	{name: "not a block", file: "- a\n", want: "%[1]s:1: must be a block of keys"},
	{name: "blocks", file: "history: 7d\nlog: [info]\nlimits: {locked: {a: 1}}\ndisk: {low: [1GiB]}\n", want: `%[1]s:1: history: must be a block with one or more of the keys events, bodies, undo, share, before-sends, policies
%[1]s:2: log: must be a block with one or more of the keys level, format
%[1]s:3: limits.locked: must be a plain value
%[1]s:4: disk.low: must be a plain value`},
	{name: "flat and nested", file: "log-level: info\nlog: {level: warn}\nhistory:\n  events: 7d\n  policies: [{pattern: a, undo: 1d}]\nhistory-events: 8d\nhistory-policies: [{pattern: b, undo: 1d}]\n",
		want: `%[1]s:2: log.level: given as log-level on line 1 already; keep log.level
%[1]s:6: history-events: given as history.events on line 4 already; keep history.events
%[1]s:7: history-policies: given as history.policies on line 5 already; keep history.policies`},
	{name: "quantities", file: "history: {events: 64MiB, bodies: -1d, undo: 9999999999d}\nseal-after: 10\nscrub-every: none\ndisk: {reserve: 64MB, low: unlimited}\nmemory: {limit: 2w}\nlimits: {idle-timeout: 1.5d, buffered-in: 9999999999GiB}\n",
		env: []string{"LEDGERBUS_LIMITS_BUFFERED_OUT", "-1"}, flags: map[string][]string{"clock.max-gap": {""}, "limits.transaction-bytes": {"NaN"}},
		want: `%[1]s:1: history.events: "64MiB" is not a duration from 1ms to 36500d, none or unlimited: it is a size
%[1]s:1: history.bodies: "-1d" is not a duration from 1ms to 36500d, none or unlimited: it is negative
%[1]s:1: history.undo: "9999999999d" is not a duration from 1ms to 36500d, none or unlimited: it is longer than 292 years
%[1]s:2: seal-after: "10" is not a duration from 0s to 365d, or unlimited: 10 has no unit; write 10s, 10m, 10h or 10d
%[1]s:3: scrub-every: "none" is not a duration from 1h to 365d, or unlimited
%[1]s:4: disk.reserve: "64MB" is not a size from 0 to 1TiB, or none: units are binary; write 64MiB
%[1]s:4: disk.low: "unlimited" is not a size from 0 to 1024TiB: it does not begin with a number
%[1]s:5: memory.limit: "2w" is not a size from 64MiB to 1024TiB: "w" is not a unit; the units are KiB, MiB, GiB and TiB
%[1]s:6: limits.idle-timeout: "1.5d" is not a duration from 5s to 1h: 1.5 is not a whole number of days
%[1]s:6: limits.buffered-in: "9999999999GiB" is not a size from 64KiB to 1GiB: it has more than 63 bits
LEDGERBUS_LIMITS_BUFFERED_OUT: "-1" is not a size from 64KiB to 1GiB: it is negative
--clock-max-gap: "" is not a duration from 1h to 36500d: it is empty
--limits-transaction-bytes: "NaN" is not a size from 64KiB to 1GiB: it does not begin with a number`},
	{name: "two documents", file: "data: x\n---\ndata: y\n", want: "%[1]s: more than one YAML document"},
	{name: "each source is named", file: "partitions: 0\n", env: []string{"LEDGERBUS_LOG_LEVEL", "loud"}, flags: map[string][]string{"limits.link-idle": {"10"}, "limits.buffered-in": {"511"}, "limits.idle-timeout": {"25h"}, "queue": {"a b"}},
		want: `%[1]s:1: partitions: "0" is not a whole number from 1 to 64
LEDGERBUS_LOG_LEVEL: "loud" is not one of debug, info, warn, error
--limits-buffered-in: "511" is not a size from 64KiB to 1GiB
--limits-idle-timeout: "25h" is not a duration from 5s to 1h
--limits-link-idle: "10" is not a duration from 1s to 1d: 10 has no unit; write 10s, 10m, 10h or 10d
--queue: 'a b' contains character(s) that is not allowed by Service Bus: ' '. Entity segments can contain only letters, numbers, periods (.), hyphens (-), and underscores (_). (Queue)`},
	{name: "missing file", flags: map[string][]string{"entities": {"testdata/none.json"}}, want: "entity file: stat testdata/none.json: no such file or directory"},
	{name: "listeners", flags: map[string][]string{"listen": {"localhost", "127.0.0.1:99999", "127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:0", "127.0.0.1:0"}},
		want: `--listen: "localhost": must be HOST:PORT
--listen: "127.0.0.1:99999": the port must be a number from 0 to 65535
--listen: "127.0.0.1:1" is listed twice`},
	{name: "not loopback", flags: map[string][]string{"listen": {"0.0.0.0:5672", "10.0.0.1:5672", "[::1]:5672"}},
		want: `--listen: "0.0.0.0:5672" can be reached from other machines and the emulator's key is public knowledge: listen on 127.0.0.1, give access-rules with a key of your own, or add --insecure-no-auth when the network is trusted
--listen: "10.0.0.1:5672" can be reached from other machines and the emulator's key is public knowledge: listen on 127.0.0.1, give access-rules with a key of your own, or add --insecure-no-auth when the network is trusted`},
	{name: "not loopback, no TLS", env: ownKey, flags: map[string][]string{"listen": {"10.0.0.1:5672", "10.0.0.1:5671/tls"}, "tls": {"off"}},
		want: `--listen: "10.0.0.1:5672" can be reached from other machines without TLS: give tls.certificate-file and tls.key-file, listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted
--listen: "10.0.0.1:5671/tls" needs a certificate: give tls.certificate-file and tls.key-file`},
	{name: "not loopback, plain asked for", env: ownKey, flags: map[string][]string{"listen": {"10.0.0.1:5672/any", "10.0.0.1:5673/plain"}},
		want: `--listen: "10.0.0.1:5672" can be reached from other machines without TLS: write 10.0.0.1:5672/tls, listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted
--listen: "10.0.0.1:5673" can be reached from other machines without TLS: write 10.0.0.1:5673/tls, listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted`},
	{name: "listener modes", flags: map[string][]string{"listen": {"127.0.0.1:1/fax", "127.0.0.1:1/", "127.0.0.1:2/tls", "127.0.0.1:2/plain"}},
		want: `--listen: "127.0.0.1:1/fax": after the slash there must be any, tls or plain
--listen: "127.0.0.1:1/": after the slash there must be any, tls or plain
--listen: "127.0.0.1:2" is listed twice`},
	{name: "half a certificate", flags: map[string][]string{"tls.certificate-file": {"c.pem"}},
		want: `--tls-certificate-file: both tls.certificate-file and tls.key-file are needed`},
	{name: "files announced", file: "tls: files\n", want: `%[1]s:1: tls: both tls.certificate-file and tls.key-file are needed`},
	{name: "key others may read", file: "tls:\n  certificate-file: c.pem\n  key-file: %[2]s\n",
		want: "%[1]s:3: tls.key-file: %[2]s holds keys and others may read it (mode 0640); chmod 600 it"},
	{name: "no TLS, but files", flags: map[string][]string{"tls": {"off"}}, env: []string{"LEDGERBUS_TLS_KEY_FILE", "k.pem"},
		want: `--tls: off is given together with a file (LEDGERBUS_TLS_KEY_FILE)`},
	{name: "generated in production", file: "mode: production\ntls: generated\n", env: []string{"LEDGERBUS_ACCESS_RULES", `[{name: a, rights: [Manage], primary-key: k}]`},
		want: `%[1]s:2: tls: generated certificates are for development mode; give tls.certificate-file and tls.key-file`},
	{name: "no such TLS", file: "tls: sometimes\n", want: `%[1]s:1: tls: "sometimes" is not one of generated, files, off`},
	{name: "public", env: ownKey, flags: map[string][]string{"listen": {":5672", "10.0.0.1:5672"}, "insecure-no-tls": {"true"}},
		want: `--listen: ":5672" may be reached from the internet without TLS: add --i-accept-the-risk if that is meant`},
	{name: "production without keys", flags: map[string][]string{"mode": {"production"}},
		want: "access-rules: production mode needs at least one rule with a new key, in the config file (ledgerbus init makes one) or in LEDGERBUS_ACCESS_RULES"},
	{name: "production with the known key", flags: map[string][]string{"mode": {"production"}}, env: []string{"LEDGERBUS_ACCESS_RULES", `[{name: a, rights: [Manage], primary-key: SAS_KEY_VALUE}]`},
		want: "LEDGERBUS_ACCESS_RULES: access-rules: the emulator's well-known key is for development mode only; ledgerbus init makes a file with a key of your own"},
	{name: "rules", mode: 0o600, file: "access-rules:\n- name: a\n  rights: [Fly]\n  primary-key: k\n  colour: red\n- rights: []\n- name: a\n  rights: [Send]\n  primary-key-file: /nonexistent\n",
		want: `%[1]s:3: access-rules[0].rights: each must be one of Manage, Send, Listen, ReadHistory, ReadBodies
%[1]s:5: access-rules[0].colour: unknown key
%[1]s:6: access-rules[1].rights: must be a list with at least one of Manage, Send, Listen, ReadHistory, ReadBodies
%[1]s:6: access-rules[1].name: missing
%[1]s:6: access-rules[1].primary-key: missing, or use primary-key-file
%[1]s:9: access-rules[2].primary-key-file: stat /nonexistent: no such file or directory
%[1]s:2: access-rules: two rules are named "a"`},
	{name: "keys others may read", mode: 0o640, file: "access-rules:\n- {name: a, rights: [Send], primary-key: k}\n",
		want: "%[1]s:1: access-rules: %[1]s holds keys and others may read it (mode 0640); chmod 600 it"},
}

// F24: an operator's mistakes are reported before anything starts.
func TestProblems(t *testing.T) {
	t.Parallel()
	open := write(t, "key", "x", 0o640)
	for _, c := range problematic {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from := Sources{Flags: c.flags, Env: environment(c.env...)}
			if c.file != "" {
				from.File = write(t, "c.yaml", strings.ReplaceAll(c.file, "%[2]s", open), max(c.mode, 0o600))
			}
			want := strings.NewReplacer("%[1]s", from.File, "%[2]s", open).Replace(c.want)
			_, err := Load(from)
			if problems := (Problems)(nil); !errors.As(err, &problems) || err.Error() != want {
				t.Errorf("got\n%v\nwant\n%s", err, want)
			}
		})
	}
}

func TestAllowedListeners(t *testing.T) {
	t.Parallel()
	for _, flags := range []map[string][]string{
		{"listen": {"localhost:1", "127.0.0.5:1", "[::1]:1"}},
		{"listen": {"192.168.1.1:1", "[fd00::1]:1"}, "insecure-no-tls": {"true"}, "insecure-no-auth": {"true"}},
		{"listen": {"192.168.1.1:443/tls"}, "insecure-no-auth": {"true"}},
		{"listen": {"0.0.0.0:1", "8.8.8.8:1", "broker.example:1"}, "insecure-no-tls": {"true"}, "insecure-no-auth": {"true"}, "i-accept-the-risk": {"true"}},
	} {
		if _, err := Load(Sources{Flags: flags}); err != nil {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

func TestListenerModes(t *testing.T) {
	t.Parallel()
	key := write(t, "key", "x", 0o600)
	rule := environment("LEDGERBUS_ACCESS_RULES", `[{name: a, rights: [Manage], primary-key: k}]`)
	for _, c := range []struct {
		name  string
		env   func(string) (string, bool)
		flags map[string][]string
		from  TLSSource
		want  string // mode of each address
	}{
		{"development", nil, map[string][]string{"listen": {"localhost:1", "127.0.0.1:2/tls", "[::1]:3/plain"}}, TLSGenerated, "any tls plain"},
		{"development without TLS", nil, map[string][]string{"listen": {"localhost:1"}, "tls": {"off"}}, TLSOff, "plain"},
		{"a container", nil, map[string][]string{"listen": {"0.0.0.0:1", "[::]:2/plain"}, "insecure-no-tls": {"true"}, "insecure-no-auth": {"true"}, "i-accept-the-risk": {"true"}}, TLSGenerated, "any plain"},
		{"own key", rule, map[string][]string{"listen": {"0.0.0.0:1"}}, TLSGenerated, "tls"},
		{"the ports of the cloud", rule, map[string][]string{"mode": {"production"}, "listen": {":443/tls", ":5671", "127.0.0.1:80/plain"},
			"tls.certificate-file": {"c.pem"}, "tls.key-file": {key}}, TLSFiles, "tls tls plain"},
		{"production", rule, map[string][]string{"mode": {"production"}}, TLSOff, "plain"},
		{"production with files", rule, map[string][]string{"mode": {"production"}, "listen": {"127.0.0.1:1", "0.0.0.0:2", "127.0.0.1:3/any"},
			"tls.certificate-file": {"c.pem"}, "tls.key-file": {key}}, TLSFiles, "tls tls any"},
	} {
		s, err := Load(Sources{Env: c.env, Flags: c.flags})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var modes []string
		for _, entry := range s.Listening.Addresses {
			_, mode, err := s.Listener(entry)
			if err != nil {
				t.Error(err)
			}
			modes = append(modes, string(mode))
		}
		if got := strings.Join(modes, " "); got != c.want || s.TLS.From != c.from {
			t.Errorf("%s: %s, TLS %s", c.name, got, s.TLS.From)
		}
	}
}

func TestAccessRules(t *testing.T) {
	t.Parallel()
	key := write(t, "key", "from-a-file\n", 0o600)
	file := write(t, "c.yaml", "mode: production\naccess-rules:\n- name: app\n  rights: [Send, Listen]\n  primary-key-file: "+key+"\n  secondary-key-file: "+key+"\n", 0o644)
	s, err := Load(Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Access[0]; len(s.Access) != 1 || r.Name != "app" || len(r.Rights) != 2 || r.Primary.Reveal() != "from-a-file" || r.Secondary.Reveal() != "from-a-file" || s.DevelopmentKey() {
		t.Errorf(`%+v; want len(s.Access) == 1 && r.Name == "app" && len(r.Rights) == 2 && r.Primary.Reveal() == "from-a-file" && r.Secondary.Reveal() == "from-a-file" && !s.DevelopmentKey()`, r)
	}
	if got := strings.Join(s.Listening.Addresses, " "); got != "127.0.0.1:5672" {
		t.Errorf("production listens on %s", got)
	}
}

func TestKeysAreNeverPrinted(t *testing.T) {
	t.Parallel()
	const marker = "MARKER-5f1c"
	s := Settings{Access: []AccessRule{{Name: "a", Primary: NewSecret(marker), Secondary: NewSecret(marker)}}}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", s.Access[0].Primary, &s.Access[0].Primary, s)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("m", "key", s.Access[0].Primary, "all", s)
	}
	asJSON, err := json.Marshal(s.Access)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(s.Access)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(asJSON)
	out.Write(asYAML)
	for _, file := range []string{
		"access-rules:\n- primary-key: *" + marker + "\n",
		"access-rules:\n- primary-key: '" + marker + "\n",
		"access-rules: " + marker + "\n",
		"access-rules: [" + marker + "]\n",
		"access-rules: [{rights: [" + marker + "], primary-key: [" + marker + "], name: {a: " + marker + "}}]\n",
	} {
		for _, mode := range []os.FileMode{0o600, 0o644} {
			_, err := Load(Sources{File: write(t, "c.yaml", file, mode)})
			fmt.Fprintln(&out, err)
			_, err = Load(Sources{Env: environment("LEDGERBUS_ACCESS_RULES", strings.TrimPrefix(file, "access-rules:"))})
			fmt.Fprintln(&out, err)
		}
	}
	if text := out.String(); strings.Contains(text, marker) || !strings.Contains(text, "***") {
		t.Errorf("the key shows:\n%s", text)
	}
}

func TestWordsAreWhole(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, w := range Words() {
		if seen[w.Flag()] || (w.Usage == "" || w.setter.set == nil || w.Takes() == "") == (w.Fixed == "") || len(w.Usage) > 110 || strings.Contains(strings.TrimSuffix(w.Name, "key-file"), "key") {
			t.Errorf("word %q", w.Name)
		}
		seen[w.Flag()] = true
	}
}

// A decision about one start is not a setting: in a place that applies to every start it is
// refused.
func TestAcceptClockIsAFlag(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("accept-clock: wall\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, from := range map[string]Sources{
		"LEDGERBUS_ACCEPT_CLOCK": {Env: environment("LEDGERBUS_ACCEPT_CLOCK", "wall")},
		file + ":1":              {File: file},
		"neither log nor wall":   {Flags: map[string][]string{"accept-clock": {"yes"}}},
		"--clock-max-gap":        {Flags: map[string][]string{"clock.max-gap": {"59m"}}},
		"LEDGERBUS_REASON":       {Flags: map[string][]string{"accept-clock": {"log"}}, Env: environment("LEDGERBUS_REASON", "x")},
		"needs --accept-clock":   {Flags: map[string][]string{"reason": {"x"}}},
		"must be one line":       {Flags: map[string][]string{"accept-clock": {"log"}, "reason": {"two\nlines"}}},
	} {
		if _, err := Load(from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want err != nil && strings.Contains(err.Error(), want)", want, err)
		}
	}
	s, err := Load(Sources{Flags: map[string][]string{"accept-clock": {"log"}, "reason": {"no time server"}}, Env: environment("LEDGERBUS_CLOCK_MAX_GAP", "48h")})
	if err != nil || s.Clock != (Clock{MaxGap: 48 * time.Hour, Accept: host.AcceptLog, Reason: "no time server"}) {
		t.Errorf(`%+v, %v; want s.Clock == (Clock{MaxGap: 48 * time.Hour, Accept: host.AcceptLog, Reason: "no time server"})`, s.Clock, err)
	}
}

// Old keys and values are accepted, and so are former settings; each has one note. New spellings of
// the same settings have none.
func TestNotes(t *testing.T) {
	t.Parallel()
	file := write(t, "old.yaml", "log-level: warn\nlog-format: json\nclock-max-gap: 9600h\nhistory-events: 168h\nhistory-share: 30\nhistory-policies: [{pattern: a, undo: 1d}]\n"+
		"seal-after: never\ndisk: {reserve: 1048576}\nlimits: {sessions: many, link-idle: 600s}\n", 0o600)
	old, err := Load(Sources{File: file, Env: environment("LEDGERBUS_SCRUB_EVERY", "never", "LEDGERBUS_LIMITS_LINKS", "7"), Flags: map[string][]string{"limits.sessions": {"9"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Note{
		{Where: file + ":1", Old: "log-level", New: "log: {level: ...}"}, {Where: file + ":2", Old: "log-format", New: "log: {format: ...}"},
		{Where: file + ":3", Old: "clock-max-gap", New: "clock: {max-gap: ...}"}, {Where: file + ":4", Old: "history-events", New: "history: {events: ...}"},
		{Where: file + ":5", Old: "history-share", New: "history: {share: ...}"}, {Where: file + ":6", Old: "history-policies", New: "history: {policies: ...}"},
		{Where: file + ":7: seal-after", Old: "never", New: "unlimited"}, {Where: file + ":9: limits.sessions", Old: "limits.sessions", New: "5000", Fixed: true},
		{Where: "LEDGERBUS_SCRUB_EVERY", Old: "never", New: "unlimited"}, {Where: "LEDGERBUS_LIMITS_LINKS", Old: "limits.links", New: "20000", Fixed: true},
		{Where: "--limits-sessions", Old: "limits.sessions", New: "5000", Fixed: true},
	}
	if !slices.Equal(old.Notes, want) {
		t.Errorf("got\n%+v\nwant\n%+v", old.Notes, want)
	}
	now, err := Load(Sources{File: write(t, "new.yaml", "log: {level: warn, format: json}\nclock: {max-gap: 400d}\nhistory:\n  events: 7d\n  share: 30\n  policies: [{pattern: a, undo: 1d}]\n"+
		"seal-after: unlimited\nscrub-every: unlimited\ndisk: {reserve: 1MiB}\nlimits: {link-idle: 10m}\n", 0o600)})
	if err != nil || now.Notes != nil || now.Fingerprint() != old.Fingerprint() || now.Storage.Reserve != 1<<20 || now.Clock.MaxGap != 9600*time.Hour {
		t.Errorf("%+v, %v; want the settings of the old spellings, without notes:\n%+v", now, err, old)
	}
}

// A list without entries is a list.
func TestEmptyList(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{File: write(t, "empty.yaml", "queue: []\nhosts: []\n", 0o600)})
	if err != nil || len(s.Entities.Queues) != 0 || len(s.Listening.Hosts) != 0 {
		t.Errorf("%v, %v, %v; want two empty lists", s.Entities.Queues, s.Listening.Hosts, err)
	}
}
