package settings

import (
	"flag"
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
		want := []engine.PutQueue{
			{Path: "queue.1", Properties: first}, {Path: "orders/eu", Properties: second}, {Path: "big", Properties: third},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if p := emulatorQueue(); p.MaxDeliveryCount != 3 || p.DefaultMessageTimeToLive != time.Hour || p.LockDuration != time.Minute {
		t.Errorf("the emulator's defaults are not %+v", p)
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

func TestQueueNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"orders": "orders", "a": "a", "Orders_1.eu-x~y/z": "Orders_1.eu-x~y/z", `eu\orders`: "eu/orders",
		strings.Repeat("a", 260): strings.Repeat("a", 260),
		strings.Repeat("a", 261): "", "": "", "/a": "", "a/": "", "a//b": "", "_a": "", "a.": "", "a b": "", "a@b": "", "a?b": "",
		"a#b": "", "a*b": "", "é": "", "a/$management": "", "t/Subscriptions/s": "", "a\nb": "",
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
