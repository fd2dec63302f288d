package tidy

import (
	"maps"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

const (
	maxFunctionLines = 70  // from func to the closing brace: more than a screen is not read at once
	maxFileLines     = 600 // more is two subjects
)

var functionLengths = ratchet{
	list: "longFunctions in test/tidy/lengths_test.go", known: longFunctions, unit: "lines",
	why: "70 lines are the limit: move a step that can be named into a function of its own.",
}

var fileLengths = ratchet{
	list: "longFiles in test/tidy/lengths_test.go", known: longFiles, unit: "lines",
	why: "600 lines are the limit: move one of its subjects into a file of its own.",
}

// longFunctions are the functions over the limit, by file and name, with their lines.
var longFunctions = map[string]int{
	"cmd/broker/history_test.go TestHistoryOfAMessage":        81,
	"cmd/broker/management_test.go TestManagementOverCrashes": 82,
	"cmd/ledgerbus/entities_test.go TestEntities":             72,
	"cmd/settings/emulator_test.go TestEmulatorVariables":     78,
	"cmd/settings/settings_test.go TestProblems":              87,
	"engine/host/clock_test.go TestBrokerTime":                72,
	"engine/host/late_test.go TestCostlyRequestsTakeTurns":    72,
	"engine/host/idle_test.go TestIdle":                       104,
	"engine/host/receivers_test.go TestConcurrentReceivers":   76,
	"index/index.go Index.Apply":                              93,
	"index/random_test.go walk.step":                          156,
	"index/session_order_test.go TestLongSession":             104,
	"log/checkpoint_test.go TestForeignCheckpoints":           87,
	"protocol/access/jwt_test.go TestJWT":                     111,
	"protocol/access/sas_test.go TestVerify":                  99,
	"protocol/amqp/fields.go symbolicDescriptor":              79,
	"protocol/amqp/goamqp_test.go TestClient":                 73,
	"protocol/amqp/golden_test.go TestGoldenFrames":           81,
	"protocol/listen/http_test.go TestHTTP":                   75,
	"protocol/servicebus/expiry_test.go millisecondsToLive":   72,
	"protocol/servicebus/fuzz_test.go FuzzConnection":         129,
	"protocol/servicebus/receiver_test.go TestOutcomes":       88,
	"protocol/servicebus/scope_test.go TestNothingAfterAnEnd": 76,
	"test/sim/crash.go world.open":                            73,
	"test/sim/history.go history.answered":                    73,
	"test/sim/options.go swarm":                               78,
	"test/sim/sim_test.go TestSim":                            91,
	"test/torture/ledger_test.go ledger.close":                73,
}

// longFiles are the files over the limit, with their lines.
var longFiles = map[string]int{
	"log/damage_test.go":                     610,
	"protocol/servicebus/connection_test.go": 656,
	"protocol/servicebus/limits_test.go":     622,
	"protocol/servicebus/peer_test.go":       774,
	"protocol/servicebus/receiver_test.go":   677,
	"test/faultfs/faultfs.go":                602,
	"test/sdk/go/bus_test.go":                708,
}

func TestFunctionLength(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, f := range files(t) {
		maps.Copy(found, functionsOver(maxFunctionLines, f))
	}
	report(t, functionLengths.compare(found))
}

func TestFileLength(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, f := range files(t) {
		if f.Lines > maxFileLines {
			found[f.Path] = f.Lines
		}
	}
	report(t, fileLengths.compare(found))
}

// functionsOver is the lines of the functions of a file that have more than limit.
func functionsOver(limit int, f *source.File) map[string]int {
	found := map[string]int{}
	for name, d := range f.Declarations() {
		if n := f.Line(d.End()) - f.Line(d.Pos()) + 1; name != "" && n > limit {
			found[f.Path+" "+name] = n
		}
	}
	return found
}

func TestFunctionsOver(t *testing.T) {
	t.Parallel()
	f := parse(t, "a/b.go", "package a\n\n// A comment does not count.\nfunc (r *ring[T]) fill() {\n"+strings.Repeat("\tg()\n", 9)+"}\n\nfunc g() {\n}\n")
	if got, want := functionsOver(10, f), map[string]int{"a/b.go ring.fill": 11}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := functionsOver(11, f); len(got) != 0 {
		t.Errorf("11 lines are not more than 11: %v", got)
	}
}
