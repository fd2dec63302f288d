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

// notPlanted are the planted bugs of reliability.md 6 that are not switched on by that number, each with what shows their absence.
var notPlanted = map[string]string{
	"M2":  "log/crash_test.go", // a death at every call, with the names lost that no directory was synced for
	"M5":  "log/crash_test.go",
	"M6":  "log/during_test.go", // and Y1 of internal/mutant, where there is no room
	"M7":  "log/crash_test.go",
	"M8":  "log/checkpoint_test.go",
	"M9":  "test/sim/mutants_test.go", // as C1 and K1
	"M10": "test/sim/mutants_test.go", // as T2 and X1
	"M21": "protocol/amqp/limits_test.go",
	"M24": "test/attack/attacks_test.go",
}

var (
	plantedRule = regexp.MustCompile(`^\| (M\d{1,2}) \|`)
	plantedBug  = regexp.MustCompile(`Bug += "([A-Z]\d{1,2})"`)
	bugName     = regexp.MustCompile(`\bM\d{1,2}\b`)
)

// Every planted bug of reliability.md 6 can be switched on, or is named by the test that shows its absence, or notPlanted says which test that is.
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
	text, err := os.ReadFile(filepath.Join(source.Root, "internal/mutant/mutant.go"))
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
		switch shown := notPlanted[name]; {
		case named[name] && shown != "":
			t.Errorf("%s is planted or named by a test now: take it out of notPlanted in test/tidy/planted_test.go", name)
		case !named[name] && shown == "":
			t.Errorf("%s of docs/rules/reliability.md is no bug of internal/mutant, and no test names it: say in notPlanted of test/tidy/planted_test.go what shows its absence", name)
		case shown != "" && !exists(shown):
			t.Errorf("%s is held by %q, and there is no such file", name, shown)
		}
	}
	for name := range notPlanted {
		if !listed[name] {
			t.Errorf("%s is no planted bug of docs/rules/reliability.md: take it out of notPlanted in test/tidy/planted_test.go", name)
		}
	}
}
