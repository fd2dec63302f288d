package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/test/changes"
)

// The scopes say how much runs.
const (
	commit = "commit" // what a contributor runs before a commit
	change = "change" // what runs besides before a change is taken
	full   = "full"   // everything
)

var scopes = []string{commit, change, full}

// part is a number of tests that are left out together.
type part struct {
	name string
	// fails where the part's runtime is missing or too old; nil: Go is all it needs
	needs    *command
	commands map[string][]command // by scope; a part is not in a scope for which it has none
}

// module is the module's path, and goSDK the package of the Go SDK's tests below it.
const (
	module = "github.com/ledgerbus/ledgerbus/"
	goSDK  = "test/sdk/go"
)

// outside are the packages that check what others see: commands of the pages, and directories as
// another build and another reader have them.
var outside = []string{"test/compatible", "test/format", "test/guide"}

// apart are the packages that are parts of their own, besides: they run a real broker for minutes.
var apart = []string{goSDK, "test/attack", "test/torture"}

// parts are all of them, in the order in which they run. What takes long is in the scope of a
// change only where it concerns files that have changed.
func parts(ctx context.Context, w io.Writer, changed changes.Files) ([]part, error) {
	listed, err := output(ctx, "go", "list", "./...")
	if err != nil {
		return nil, err
	}
	packages := slices.DeleteFunc(strings.Fields(listed), func(path string) bool {
		below := strings.TrimPrefix(path, module)
		return slices.Contains(apart, below) || slices.Contains(outside, below)
	})
	if len(packages) == 0 {
		return nil, errors.New("there are no packages (the program runs at the top of the repository)")
	}
	race, err := hasCompiler(ctx)
	if err != nil {
		return nil, err
	}
	if !race {
		fmt.Fprintln(w, "no C compiler: tests run without the race detector")
	}
	split := []string{"-run", "^TestScenarios$", "./" + goSDK}
	all := []part{
		{name: "units", commands: map[string][]command{commit: units(packages, race, "-short"), full: units(packages, race)}},
		// by itself: its timings must not depend on what others leave of the machine
		{name: "go", commands: map[string][]command{
			commit: {goTest(race, "./"+goSDK)},
			change: {partitioned(goTest(false, split...))},
			full:   {goTest(race, "./"+goSDK), partitioned(goTest(race, split...))},
		}},
	}
	sdks, err := sdks()
	return slices.Concat(all, sdks, random(changed), faults(changed)), err
}

// goTest returns the command that runs tests of Go. Its limit guards against a hang and is no
// target: a busy machine takes many times as long as an idle one.
func goTest(race bool, args ...string) command {
	test := []string{"go", "test", "-short", "-timeout", "60m"}
	if race {
		test = append(test, "-race")
	}
	return command{args: append(test, args...)}
}

// partitioned makes a command of the Go SDK's scenarios run them on partitioned entities.
func partitioned(c command) command {
	c.env = []string{"LEDGERBUS_PARTITIONED=1"}
	return c
}

// units returns the commands that test packages: under the race detector, if there is one, those
// that raced lists; without it, with some more arguments, all others and those of which not all
// tests run under it.
func units(packages []string, race bool, args ...string) []command {
	plain := func(packages []string) command {
		return command{args: slices.Concat([]string{"go", "test", "-timeout", "60m"}, args, packages)}
	}
	if !race {
		return []command{plain(packages)}
	}
	var under, others []string
	for _, path := range packages {
		below := strings.TrimPrefix(path, module)
		isRaced := slices.Contains(raced, below)
		if isRaced {
			under = append(under, path)
		}
		if !isRaced || alone[below] != nil {
			others = append(others, path)
		}
	}
	return []command{plain(others), goTest(true, append([]string{"-skip", notRaced()}, under...)...)}
}

// sdks are the parts of the SDKs and clients whose runtimes may be missing.
func sdks() ([]part, error) {
	binary, err := filepath.Abs("bin/ledgerbus")
	const dir = "test/sdk/js"
	js := []command{
		{dir: dir, args: []string{"npm", "ci", "--no-audit", "--no-fund"}},
		{dir: dir, env: []string{"LEDGERBUS=" + binary}, args: []string{"npm", "test"}},
	}
	some := []string{"--scenario", strings.Join(wireForms, ",")}
	return []part{
		sdk("js", js, some, nil),
		sdk("python", nil, some, nil),
		// of the SDKs the one that has transactions
		sdk("java", nil, nil, []string{"--entities", "both"}),
		sdk("qpid-jms", nil, nil, nil),
		sdk("qpid-proton", nil, nil, nil),
	}, err
}

// sdk is the part of an SDK: its scenarios, after tests that only it has. The arguments say which
// scenarios run, and on what.
func sdk(name string, before []command, ofChange, ofAll []string) part {
	scenarios := []string{"go", "run", "./test/sdk/run", "--sdk", name}
	run := func(args []string) []command {
		return append(slices.Clone(before), command{args: slices.Concat(scenarios, args)})
	}
	return part{
		name:     name,
		needs:    &command{args: slices.Concat(scenarios, []string{"--rounds", "0"})},
		commands: map[string][]command{change: run(ofChange), full: run(ofAll)},
	}
}

// words makes a command of its words.
func words(text string) command { return command{args: strings.Fields(text)} }

// random are the parts that make up their own cases.
func random(changed changes.Files) []part {
	answers := words("go test ./test/sim -run ^TestAnswers$ -answers -count 1 -timeout 0")
	var suites []string
	for _, of := range planted {
		if changed.Below(of.concerns...) || changed.Below(patches(of.concerns)...) || changed.Below(planting...) {
			suites = append(suites, "./"+of.suite)
		}
	}
	mutants := command{args: []string{"make", "mutants", "SUITES=" + strings.Join(suites, " ")}}
	fuzz := words("go run ./test/fuzz --count 20000 --since " + changed.Base)
	if changed.Base == "" {
		fuzz = words("go run ./test/fuzz --count 20000")
	}
	return []part{
		{name: "sim", commands: map[string][]command{change: {words("make sim DURATION=60s")}, full: {words("make sim DURATION=30m")}}},
		{name: "answers", commands: map[string][]command{
			change: where(changed.Below("index/", "log/", "engine/ledger/", "test/sim/"), answers),
			full:   {answers},
		}},
		{name: "mutants", commands: map[string][]command{change: where(len(suites) > 0, mutants), full: {words("make mutants")}}},
		{name: "fuzz", commands: map[string][]command{change: {fuzz}, full: {words("make fuzz FUZZ=20000")}}},
	}
}

// planting are the files of what plants bugs, whichever they are.
var planting = []string{"test/mutants/bug", "test/mutants/main", "test/mutants/patches", "test/mutants/trials"}

// patches returns how the names begin of the patches that plant bugs below directories.
func patches(dirs []string) (names []string) {
	for _, dir := range dirs {
		names = append(names, "test/mutants/"+strings.ReplaceAll(strings.TrimSuffix(dir, "/"), "/", "-"))
	}
	return names
}

// where returns a command on a condition.
func where(holds bool, c command) []command {
	if !holds {
		return nil
	}
	return []command{c}
}

// planted are the suites that find planted bugs, with the files that each is about.
var planted = []struct {
	suite    string
	concerns []string
}{
	{"test/sim", []string{"engine/background/", "engine/host/", "engine/loop/", "test/sim/"}},
	{"engine", []string{"engine/"}},
	{"engine/background", []string{"engine/background/"}},
	{"engine/host", []string{"engine/background/", "engine/host/", "engine/loop/"}},
	{"engine/loop", []string{"engine/loop/"}},
	{"protocol/servicebus", []string{"protocol/servicebus/"}},
	{"log", []string{"log/"}},
	{"index", []string{"index/"}},
	{"index/replay", []string{"index/replay/"}},
	{"engine/ledger", []string{"engine/ledger/"}},
}

// faults are the parts with a real process, a real disk and real minutes.
func faults(changed changes.Files) []part {
	seen := goTest(false)
	for _, below := range outside {
		seen.args = append(seen.args, "./"+below)
	}
	all := []part{
		{name: "outside", commands: map[string][]command{change: {seen}, full: {seen}}},
		{name: "torture", commands: map[string][]command{
			// what the simulation cannot do
			change: {words("go test ./test/torture -run ^(TestTorture|TestFencedDevice)$ -rounds 10 -count 1 -timeout 60m")},
			full:   {goTest(false, "./test/torture"), words("make torture ROUNDS=100")},
		}},
	}
	for _, of := range concerns {
		c := words(of.command)
		all = append(all, part{name: of.name, commands: map[string][]command{change: where(changed.Below(of.files...), c), full: {c}}})
	}
	return all
}

// concerns are the parts that take long, with how the paths of the files begin that each is about.
var concerns = []struct {
	name, command string
	files         []string
}{
	{"attack", "make attack ATTACK=10s", []string{"protocol/", "cmd/broker/", "test/attack/"}},
	{"temporary", "make temporary", []string{"engine/background/idle", "engine/host/idle", "engine/loop/sweep", "engine/loop/use", "test/torture/temporary"}},
	{"space", "make space", []string{"log/", "engine/background/", "engine/host/compact", "engine/host/history", "engine/host/space"}},
	{"large", "make large", []string{"protocol/servicebus/unfinished", "test/torture/large"}},
	{"tables", "make tables", []string{"tools/export/", "engine/ledger/print/", "test/format/duckdb"}},
}

// hasCompiler reports whether there is the C compiler that the race detector needs.
func hasCompiler(ctx context.Context) (bool, error) {
	cc, err := output(ctx, "go", "env", "CC")
	words := strings.Fields(cc) // it may have arguments
	if err != nil || len(words) == 0 {
		return false, err
	}
	_, err = exec.LookPath(words[0])
	return err == nil, nil
}

// run runs the part. A runtime that is missing is an error if it must be there; otherwise the
// output says so.
func (p part) run(ctx context.Context, scope string, must bool, w io.Writer) error {
	if p.needs != nil {
		switch err := p.needs.run(ctx, w); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && must:
			return err
		case err != nil:
			fmt.Fprintln(w, p.name, "left out")
			return nil
		}
	}
	for _, c := range p.commands[scope] {
		fmt.Fprintln(w, c)
		began := time.Now()
		if err := c.run(ctx, w); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %s\n", p.name, time.Since(began).Round(time.Second))
	}
	return nil
}

func (p part) list(scope string, w io.Writer) {
	for _, c := range p.commands[scope] {
		fmt.Fprintln(w, c)
	}
}
