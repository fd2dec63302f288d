package tidy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// otherwise are the promises, faults, invariants, suites and security rules of reliability.md that
// no test names, each with what shows it: another one of them that a test names, or a file or
// folder, or why nothing does.
var otherwise = map[string]string{
	"P2":  "I2",
	"P3":  "I2", // nothing is promised but that nothing is invented
	"P4":  "I4",
	"P7":  "I6",
	"P9":  "I15",
	"P10": "I9",
	"P11": "I19",
	"P12": "I20",
	"P13": "I21",
	"P15": "I18",
	"P18": "I12",
	"P25": "I25",
	"S20": "protocol/amqp", // nothing of it can be seen from outside
	"S22": noUI,
	"S25": noUI,
	"S26": noUI,
	"S29": noUI,
	"S30": noUI,
	"S35": "Makefile",
	"S36": "no test: there is no such endpoint",
	"T9":  "no test: it is not built",
	"T10": ".ci/run",
}

const noUI = "no test: there is no web UI"

var (
	// where the page says what it is
	promise      = regexp.MustCompile(`^(?:\| |- \*\*|### |)([IFPST]\d{1,2})(?: |\. )`)
	promiseRange = regexp.MustCompile(`\b([IFPST])(\d{1,2}) to (?:[IFPST])?(\d{1,2})\b`)
	promiseName  = regexp.MustCompile(`\b[IFPST]\d{1,2}\b`)
	testName     = regexp.MustCompile(`func Test((?:[IFPST]\d{1,2})+)`)
)

// promisesIn is the promises and faults that a text of tests names, singly, as a range, or in the
// name of a test.
func promisesIn(text string) map[string]bool {
	all := map[string]bool{}
	for _, name := range promiseName.FindAllString(text, -1) {
		all[name] = true
	}
	for _, m := range promiseRange.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[3])
		for n := from; n <= to; n++ {
			all[fmt.Sprint(m[1], n)] = true
		}
	}
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		for _, name := range regexp.MustCompile(`[IFPST]\d{1,2}`).FindAllString(m[1], -1) {
			all[name] = true
		}
	}
	return all
}

// Every promise, fault, invariant, suite and security rule of reliability.md is named by a test, or
// it is said what shows it.
func TestPromises(t *testing.T) {
	t.Parallel()
	l := repository(t)
	known := map[string]bool{}
	for _, line := range l.documents["docs/rules/reliability.md"].text {
		if m := promise.FindStringSubmatch(line); m != nil {
			known[m[1]] = true
		}
	}
	if len(known) < 110 {
		t.Fatalf("docs/rules/reliability.md has only %d promises, faults, invariants, suites and security rules", len(known))
	}
	tested := map[string]bool{}
	for p, text := range tests(t, l) {
		if !strings.HasPrefix(p, "test/sdk/") { // whose languages have names like these
			maps.Copy(tested, promisesIn(text))
		}
	}
	// the simulation and the model say what is broken in files that are no tests
	for p := range l.paths {
		if strings.HasPrefix(p, "test/sim/") || strings.HasPrefix(p, "test/model/") {
			if text, err := os.ReadFile(filepath.Join(source.Root, p)); err == nil {
				maps.Copy(tested, promisesIn(string(text)))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		shown := otherwise[name]
		switch {
		case tested[name] && shown != "":
			t.Errorf("%s has a test now: take it out of otherwise in test/tidy/promises_test.go", name)
		case tested[name] || strings.HasPrefix(shown, "no test: "):
		case shown == "":
			t.Errorf("%s of docs/rules/reliability.md has no test that names it; if something else shows it, say what in otherwise of test/tidy/promises_test.go", name)
		case known[shown] && tested[shown]:
		case !l.paths[shown] && !exists(shown):
			t.Errorf("%s is shown by %q, which is neither tested nor a file", name, shown)
		}
	}
	for name := range otherwise {
		if !known[name] {
			t.Errorf("%s is no promise of docs/rules/reliability.md: take it out of otherwise in test/tidy/promises_test.go", name)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(source.Root, path))
	return err == nil
}

func TestPromisesIn(t *testing.T) {
	t.Parallel()
	got := slices.Sorted(maps.Keys(promisesIn("S5 to S7, F22; func TestF1F2(t *testing.T); SM-001, XI3 and P123 are none")))
	if want := []string{"F1", "F2", "F22", "S5", "S6", "S7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
