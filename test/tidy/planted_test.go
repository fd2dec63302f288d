package tidy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// notPlanted are the planted bugs of reliability.md 6 that are not switched on by that number, each
// with the file and the test that shows their absence, or the file that plants it under another
// number, and that bug.
var notPlanted = map[string]struct{ file, what string }{
	// a power loss at every call takes the names that no directory was synced for
	"M2": {"log/crash_test.go", "func TestF1F2F14CrashAtEveryCall("},
	"M5": {"log/repair_test.go", "func TestF9PageCacheLies("},
	// and Y1 of test/mutants, where there is no room
	"M6":  {"log/during_test.go", "func TestSyncFailsDuringWrite("},
	"M7":  {"test/mutants/bugs.go", `of("C5",`},
	"M8":  {"log/checkpoint_test.go", "func TestF6Checkpoints("},
	"M9":  {"test/mutants/bugs.go", `of("K1",`}, // and C1
	"M10": {"test/mutants/bugs.go", `of("T1",`}, // and X1
	// depth: TestLimits; frames: TestBrokenFrames of protocol/servicebus
	"M21": {"protocol/amqp/limits_test.go", "func TestDecodeMemory("},
	"M24": {"protocol/servicebus/limits_test.go", "func TestPeerThatDoesNotReadHoldsUpNobody("},
}

var (
	plantedRule = regexp.MustCompile(`^\| (M\d{1,2}) \|`)
	plantedBug  = regexp.MustCompile(`\bof\("([A-Z]\d{1,2})",`)
	bugName     = regexp.MustCompile(`\bM\d{1,2}\b`)
)

// has reports whether a file of the project has a text in it.
func has(file, text string) bool {
	b, err := os.ReadFile(filepath.Join(source.Root, file))
	return err == nil && strings.Contains(string(b), text)
}

// Every planted bug of reliability.md 6 can be switched on, or is named by the test that shows its
// absence, or notPlanted says which test that is.
func TestPlanted(t *testing.T) {
	t.Parallel()
	l := repository(t)
	named := map[string]bool{}
	for p, text := range tests(t, l) {
		if !strings.HasPrefix(p, "test/sdk/") {
			for _, name := range bugName.FindAllString(text, -1) {
				named[name] = true
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(source.Root, "test/mutants/bugs.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range plantedBug.FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
	}
	listed := map[string]bool{}
	for _, line := range l.documents["docs/rules/reliability.md"].text {
		if m := plantedRule.FindStringSubmatch(line); m != nil {
			listed[m[1]] = true
		}
	}
	if len(listed) < 24 {
		t.Fatalf("docs/rules/reliability.md has only %d planted bugs", len(listed))
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		switch shown, elsewhere := notPlanted[name]; {
		case named[name] && elsewhere:
			t.Errorf("%s is planted or named by a test now: take it out of notPlanted in test/tidy/planted_test.go", name)
		case !named[name] && !elsewhere:
			t.Errorf("%s of docs/rules/reliability.md is no bug of test/mutants, and no test names it: say in notPlanted of test/tidy/planted_test.go what shows its absence", name)
		case elsewhere && !has(shown.file, shown.what):
			t.Errorf("%s is to be shown by %q of %s, which has no such thing", name, shown.what, shown.file)
		}
	}
	for name := range notPlanted {
		if !listed[name] {
			t.Errorf("%s is no planted bug of docs/rules/reliability.md: take it out of notPlanted in test/tidy/planted_test.go", name)
		}
	}
}
