package settings

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// golden compares text with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestSampleOfTheEmulator(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/sample.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string][]byte{"plain": src, "byte order mark": append([]byte("\xef\xbb\xbf"), src...)} {
		got, err := ParseEntities("sample.json", src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		first, second, third := emulatorQueue(), emulatorQueue(), emulatorQueue()
		third.MaxSizeMegabytes, third.MaxDeliveryCount, third.LockDuration = 81920, 2147483647, 5*time.Minute
		third.DefaultMessageTimeToLive, third.UserMetadata = event.Forever, "x"
		states := emulatorQueue()
		states.RequiresSession, states.RequiresDuplicateDetection, states.DuplicateDetectionWindow = true, true, 7*24*time.Hour
		states.Status, states.DeadLetteringOnMessageExpiration = event.SendDisabled, true
		want := []engine.PutQueue{
			{Path: "queue.1", Properties: first}, {Path: "orders/eu", Properties: second}, {Path: "states", Properties: states},
			{Path: "big", Properties: third},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if p := emulatorQueue(); p.MaxDeliveryCount != 3 || p.DefaultMessageTimeToLive != time.Hour || p.LockDuration != time.Minute {
		t.Errorf("the emulator's defaults are not %+v", p)
	}
}

// SM-314 (1.3): what a queue gets that is made with nothing but a name. SM-099: the maximum delivery count is 10.
func TestDefaultsOfAQueue(t *testing.T) {
	t.Parallel()
	want := event.Properties{
		LockDuration: time.Minute, MaxSizeMegabytes: 1024, MaxMessageSizeKilobytes: 256, DuplicateDetectionWindow: 10 * time.Minute,
		DefaultMessageTimeToLive: event.Forever, MaxDeliveryCount: 10, EnableBatchedOperations: true, Status: event.Active,
		AutoDeleteOnIdle: event.Forever,
	}
	if diff := cmp.Diff(want, DefaultQueue()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The ranges of table 1.3: SM-099 (MaxDeliveryCount), SM-169 (the window), SM-301 (AutoDeleteOnIdle).
func TestBoundsOfProperties(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ property, want string }{ // want: part of the complaint, "" for none
		{`"LockDuration": "PT5S"`, ""},
		{`"LockDuration": "PT4.999S"`, "is shorter than PT5S"},
		{`"LockDuration": "PT5M"`, ""},
		{`"LockDuration": "PT5M0.001S"`, "is longer than PT5M"},
		{`"DuplicateDetectionHistoryTimeWindow": "PT20S"`, ""},
		{`"DuplicateDetectionHistoryTimeWindow": "PT19.999S"`, "is shorter than PT20S"},
		{`"DuplicateDetectionHistoryTimeWindow": "P7D"`, ""},
		{`"DuplicateDetectionHistoryTimeWindow": "P7DT0.001S"`, "is longer than P7D"},
		{`"DefaultMessageTimeToLive": "PT1S"`, ""},
		{`"DefaultMessageTimeToLive": "PT0.999S"`, "is shorter than PT1S"},
		{`"DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"`, ""},
		{`"AutoDeleteOnIdle": "P10675199DT2H48M5.4775807S"`, ""},
		{`"AutoDeleteOnIdle": "PT4M59.999S"`, "is shorter than PT5M"},
		{`"AutoDeleteOnIdle": "PT5M"`, ""},
		{`"MaxDeliveryCount": 1`, ""},
		{`"MaxDeliveryCount": 0`, "is not a whole number from 1 to 2147483647"},
		{`"MaxDeliveryCount": 2147483647`, ""},
		{`"MaxDeliveryCount": 2147483648`, "is not a whole number from 1 to 2147483647"},
		{`"MaxSizeInMegabytes": 5120`, ""},
		{`"MaxSizeInMegabytes": 5121`, "is not a multiple of 1024"},
		{`"MaxMessageSizeInKilobytes": 102400`, ""},
		{`"MaxMessageSizeInKilobytes": 102401`, "is not a whole number from 1 to 102400"},
		{`"Status": "Active"`, ""}, {`"Status": "Disabled"`, ""}, {`"Status": "SendDisabled"`, ""}, {`"Status": "ReceiveDisabled"`, ""},
		{`"Status": "Deleting"`, "is none of Active, Disabled"},
		{`"RequiresSession": true`, ""}, {`"RequiresDuplicateDetection": true`, ""},
		{`"EnablePartitioning": true`, "is not supported yet"}, {`"ForwardTo": "q"`, "is not supported yet"},
	} {
		file := `{"UserConfig":{"Namespaces":[{"Name":"n","Queues":[` + "\n" + `{"Name":"q","Properties":{` + c.property + `}}]}]}}`
		_, err := ParseEntities("q.json", []byte(file))
		name, _, _ := strings.Cut(strings.Trim(c.property, `"`), `"`)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.property, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "q.json:2: UserConfig.Namespaces[0].Queues[0].Properties."+name+": ")):
			t.Errorf("%s: got %v, want %q", c.property, err, c.want)
		}
	}
}

// SM-321: one queue more than a namespace may have.
func TestTooManyQueues(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{maxQueues: true, maxQueues + 1: false} {
		queues := make([]string, n)
		for i := range queues {
			queues[i] = fmt.Sprintf(`{"Name":"q%d"}`, i)
		}
		got, err := ParseEntities("q.json", []byte(`{"UserConfig":{"Namespaces":[{"Name":"n","Queues":[`+strings.Join(queues, ",\n")+`]}]}}`))
		if (err == nil) != want || (want && len(got) != n) {
			t.Errorf("%d queues: %v", n, err)
		}
	}
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/broken.json")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ParseEntities("broken.json", src)
	if err == nil {
		t.Fatal("accepted")
	}
	golden(t, "broken.txt", err.Error()+"\n")
}

func TestEntityFileShape(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"":                                 "q.json:1: not valid JSON: the document ends too early",
		"{\n\"UserConfig\": {":             "q.json:2: not valid JSON: the document ends too early",
		"{\n\"UserConfig\" {} }":           "q.json:2: not valid JSON: invalid character '{' after object key",
		"{} {}":                            "q.json:1: not valid JSON: more text after the document's end",
		"[]":                               "q.json:1: must be an object, not an array",
		"{}":                               "q.json:1: UserConfig: missing",
		`{"UserConfig": {}}`:               "q.json:1: UserConfig.Namespaces: missing",
		`{"UserConfig": null}`:             "q.json:1: UserConfig: missing",
		`{"UserConfig":{"Namespaces":7}}`:  "q.json:1: UserConfig.Namespaces: must be an array, not a number",
		`{"UserConfig":{"Namespaces":[]}}`: "q.json:1: UserConfig.Namespaces: must hold one namespace",
		`{"UserConfig":{"Namespaces":[{"Name":"n","Queues":[{"Name":7}]}]}}`: "q.json:1: UserConfig.Namespaces[0].Queues[0].Name: must be a string, not a number",
		strings.Repeat("[", 100): "q.json:1: not valid JSON: nested deeper than 64 levels",
	} {
		_, err := ParseEntities("q.json", []byte(src))
		if err == nil || err.Error() != want {
			t.Errorf("%.40s:\n got %v\nwant %s", src, err, want)
		}
	}
}

// SM-326: how long a name may be, and what may be in it. SM-102: no name is that of a sub-queue.
func TestQueueNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders": "orders", "a": "a", "Orders_1.eu-x~y/z": "Orders_1.eu-x~y/z", `eu\orders`: "eu/orders",
		strings.Repeat("a", 260): strings.Repeat("a", 260),
		strings.Repeat("a", 261): "", "": "", "/a": "", "a/": "", "a//b": "", "_a": "", "a.": "", "a b": "", "a@b": "", "a?b": "",
		"a#b": "", "a*b": "", "é": "", "a/$management": "", "t/Subscriptions/s": "", "a\nb": "",
		"a/$DeadLetterQueue": "", "a/$deadletterqueue": "", "a/$Transfer/$DeadLetterQueue": "", "$Default": "",
	} {
		got, err := CleanQueueName(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
}

func FuzzEntities(f *testing.F) {
	for _, name := range []string{"sample.json", "broken.json"} {
		src, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		put, err := ParseEntities("f", src)
		if err != nil && put != nil {
			t.Fatal("queues together with an error")
		}
		for _, q := range put {
			if clean, err := CleanQueueName(q.Path); err != nil || clean != q.Path {
				t.Fatalf("%q is no name: %v", q.Path, err)
			}
		}
	})
}
