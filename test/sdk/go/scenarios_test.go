package sdkgo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// group is the scenarios of one group of the list, by id.
type group map[string]func(*bus)

// written is every scenario that this suite has.
var written = func() group {
	all := group{}
	for _, g := range []group{
		sending, receiving, locks, settling, deadLettering, expiry, scheduling, deferring, peeking, batchDeleting, sessions, duplicates,
		statusAndQuota, credit, connections, transports, topics, topicsKilled, rules, forwarding, administration, administrationOfEntities,
	} {
		maps.Copy(all, g)
	}
	return all
}()

// places holds something for each scenario that runs with others, except the idlers, in all tests
// together. Nearly all a scenario does is wait, but the beginnings of many delay what others
// measure.
var places = make(chan struct{}, 16)

// idlers are scenarios that wait for so long that they begin at once.
var idlers = []string{"connection-idle", "duplicate-window"}

// listFile is the list when ../run does not say where it is.
const listFile = "../scenarios.json"

// TestScenarios runs the list, all scenarios at once but for the exclusive ones, which run one by
// one.
func TestScenarios(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	known := map[string]bool{}
	for _, scenario := range s.list.Scenarios {
		known[scenario.ID] = true
		t.Run(scenario.ID, func(t *testing.T) { s.run(t, scenario) })
	}
	if os.Getenv("LEDGERBUS_ONLY") != "" {
		return
	}
	for id := range written {
		if !known[id] {
			t.Errorf("%s is not in the list", id)
		}
	}
}

// suite is one run of the list.
type suite struct {
	list     lab.List
	together place // where scenarios run at once
	// where exclusive scenarios run; the same place when ../run says what it is
	alone   place
	running sync.WaitGroup // scenarios in together that have not ended
	turn    sync.Mutex     // of the exclusive ones

	mu      sync.Mutex
	results io.Writer // guarded by mu
}

// newSuite finds the surroundings of ../run, or makes some.
func newSuite(t *testing.T) *suite {
	t.Helper()
	file := os.Getenv("LEDGERBUS_SCENARIOS")
	if file == "" {
		file = listFile
	}
	list, err := lab.ReadScenarios(file)
	if err != nil {
		t.Fatal(err)
	}
	list = list.For("go")
	var partitioned *bool
	if list.Partitioned = os.Getenv("LEDGERBUS_PARTITIONED") != ""; list.Partitioned {
		partitioned = &list.Partitioned
	}
	if only := os.Getenv("LEDGERBUS_ONLY"); only != "" {
		if list, err = list.Only(strings.Split(only, ",")); err != nil {
			t.Fatal(err)
		}
	}
	s := &suite{list: list, results: io.Discard}
	if file := os.Getenv("LEDGERBUS_RESULTS"); file != "" {
		results, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = results.Close() })
		s.results = results
	}
	if given := os.Getenv("LEDGERBUS_CONNECTION_STRING"); given != "" {
		s.together = place{connectionString: given, tlsConnectionString: os.Getenv("LEDGERBUS_TLS_CONNECTION_STRING"),
			authority: os.Getenv("LEDGERBUS_CA"), control: os.Getenv("LEDGERBUS_CONTROL"), partitioned: partitioned}
		s.alone = s.together
		return s
	}
	binary := build(t)
	s.together, s.alone = open(t, binary, list), open(t, binary, list)
	s.together.partitioned, s.alone.partitioned = partitioned, partitioned
	return s
}

// race says whether this test has the race detector.
var race = false

// build makes the broker's binary, with the race detector if this test has it.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "ledgerbus")
	args := []string{"build", fmt.Sprintf("-race=%t", race), "-o", binary, "github.com/ledgerbus/ledgerbus/cmd/ledgerbus"}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return binary
}

func open(t *testing.T, binary string, list lab.List) place {
	t.Helper()
	l, err := lab.Open(binary, t.TempDir(), list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return place{connectionString: l.ConnectionString(), tlsConnectionString: l.TLSConnectionString(), authority: l.Authority(), control: l.Control()}
}

// result is a line of the results, as ../run reads it.
type result struct {
	ID      string  `json:"id"`
	Result  string  `json:"result"`
	Error   string  `json:"error"`
	Seconds float64 `json:"seconds"`
}

// run runs a scenario when it may run, and appends what came of it to the results.
func (s *suite) run(t *testing.T, scenario lab.Scenario) {
	if reason := scenario.Why("go", s.list.Partitioned); reason != "" {
		s.write(t, result{ID: scenario.ID, Result: "n/a"})
		t.Skip(reason)
	}
	at, retry := s.together, noRetries
	if scenario.Exclusive {
		at, retry = s.alone, stubborn
	}
	leave := s.enter(t, scenario)
	var b *bus
	ended := false
	began := time.Now()
	t.Cleanup(func() { // after those of the scenario, which close its clients
		line := result{ID: scenario.ID, Result: "pass", Seconds: time.Since(began).Seconds()}
		if !ended || t.Failed() {
			line.Result, line.Error = "fail", b.firstFailure()
		}
		s.write(t, line)
		leave()
	})
	if scenario.Group == "admin" { // these say themselves what they make
		at.partitioned = nil
	}
	b = newBus(t, at, scenario.ID, retry)
	show := written[scenario.ID]
	if show == nil {
		b.Fatalf("not written")
	}
	show(b)
	ended = true
}

// enter waits until a scenario may run. It is called before any runs; leave when this one is over.
func (s *suite) enter(t *testing.T, scenario lab.Scenario) (leave func()) {
	if scenario.Exclusive {
		t.Parallel()
		s.turn.Lock()
		if s.alone == s.together {
			s.running.Wait()
		}
		return s.turn.Unlock
	}
	s.running.Add(1)
	t.Parallel()
	if slices.Contains(idlers, scenario.ID) {
		return s.running.Done
	}
	places <- struct{}{}
	return func() {
		<-places
		s.running.Done()
	}
}

func (s *suite) write(t *testing.T, line result) {
	text, err := json.Marshal(line)
	if err != nil {
		t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.results.Write(append(text, '\n')); err != nil {
		t.Error(err)
	}
}
