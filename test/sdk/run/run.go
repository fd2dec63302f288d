package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// scenariosFile is the list, from the top of the repository, where the program runs.
const scenariosFile = "test/sdk/scenarios.json"

// budget is how long one round of all suites may take, on two cores; budgetOfBoth where the SDKs
// run twice.
const (
	budget       = 20 * time.Minute
	budgetOfBoth = 30 * time.Minute
)

// What scenarios run on.
const (
	plainEntities       = "plain"
	partitionedEntities = "partitioned"
	bothEntities        = "both"
)

// options are the flags.
type options struct {
	SDKs, Scenarios []string // none: all
	Entities        string   // one of the kinds above
	// 0: runs nothing, for a page that says so, or to know whether the runtimes are there
	Rounds  int
	Table   string
	Check   string // page to compare with; then nothing is run
	Binary  string
	Timeout time.Duration
	CI      bool // a runtime that is missing or too old is a failure
}

// run runs the suites, round after round. Its error says how many things failed, and makes the exit
// code 1.
func run(ctx context.Context, o options, w io.Writer) error {
	if o.Table+o.Check != "" && len(o.Scenarios) > 0 {
		return errors.New("--table and --check are of the page of all scenarios; they do not go with --scenario")
	}
	list, err := lab.ReadScenarios(scenariosFile)
	if err != nil {
		return fmt.Errorf("%w (the program runs at the top of the repository)", err)
	}
	if list, err = list.Only(o.Scenarios); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	all := suites(filepath.Join(cache, "ledgerbus-sdk"))
	var statements []statement
	if o.Table+o.Check != "" {
		if statements, err = partitioned(".", list); err != nil {
			return err
		}
	}
	if o.Check != "" {
		return checkFresh(o.Check, list, all, statements)
	}
	chosen, err := choose(all, o.SDKs)
	if err != nil {
		return err
	}
	if chosen, err = kinds(chosen, o.Entities); err != nil {
		return err
	}
	chosen = slices.DeleteFunc(slices.Clone(chosen), func(s Suite) bool { return len(list.For(s.SDK).Scenarios) == 0 })
	dir, err := os.MkdirTemp("", "ledgerbus-sdk-")
	if err != nil {
		return err
	}
	most := budget
	if o.Entities == bothEntities {
		most = budgetOfBoth
	}
	r := &runner{options: o, budget: most, list: list, suites: chosen, dir: dir, w: w, statements: statements, open: func(dir string, list lab.List) (*lab.Lab, error) { return lab.Open(o.Binary, dir, list) }}
	return r.all(ctx, all)
}

// runner runs a choice of suites and keeps what they came to.
type runner struct {
	options
	budget time.Duration // of a round of all suites
	list   lab.List
	suites []Suite
	dir    string // of everything that runs leave behind
	w      io.Writer
	// starts the surroundings of one run in a directory
	open    func(dir string, list lab.List) (*lab.Lab, error)
	reports []Report // of all rounds

	statements []statement   // for the page
	longest    time.Duration // round of all suites; 0: there was none
}

// all runs the rounds and writes the page, which has a column for each of the suites. What the runs
// leave behind stays only if something failed, which the error says.
func (r *runner) all(ctx context.Context, suites []Suite) error {
	failures, err := r.rounds(ctx)
	if r.Table != "" && err == nil {
		err = r.writeTable(suites)
	}
	if err == nil && failures > 0 {
		err = fmt.Errorf("%d failures", failures)
	}
	if err == nil {
		return os.RemoveAll(r.dir)
	}
	if os.Remove(r.dir) == nil { // it was empty: nothing ran
		return err
	}
	return fmt.Errorf("%w\nwhat suites and brokers said and stored is in %s", err, r.dir)
}

// rounds runs every suite once a round and counts what failed.
func (r *runner) rounds(ctx context.Context) (failures int, err error) {
	absent, err := r.prepare(ctx)
	if err != nil {
		return 0, err
	}
	for round := range r.Rounds {
		var reports []Report
		began := time.Now()
		for _, s := range r.suites {
			report := s.report()
			if report.Absent = absent[s.SDK]; report.Absent == "" {
				report = r.run(ctx, s, round)
			}
			if err := ctx.Err(); err != nil {
				return failures, err
			}
			reports = append(reports, report)
		}
		took := time.Since(began)
		failures += r.show(round, reports, took) + r.overtime(reports, took)
		r.reports = append(r.reports, reports...)
	}
	return failures, nil
}

// prepare readies the suites and returns why runtimes are of no use, by SDK.
func (r *runner) prepare(ctx context.Context) (absent map[string]string, err error) {
	absent = map[string]string{}
	ready := map[string]bool{}
	for _, s := range r.suites {
		if ready[s.SDK] { // it runs twice
			continue
		}
		ready[s.SDK] = true
		if problem := s.missing(ctx); problem != "" {
			if len(r.SDKs) > 0 {
				return nil, fmt.Errorf("%s: %s", s.SDK, problem)
			}
			absent[s.SDK] = problem
			continue
		}
		if r.Rounds == 0 || len(s.Prepare) == 0 {
			continue
		}
		fmt.Fprintf(r.w, "%-6s preparing\n", s.SDK)
		if err := r.logged(s.SDK+"-prepare", func(log io.Writer) error { return s.prepare(ctx, log) }); err != nil {
			return nil, fmt.Errorf("%s: %w", s.SDK, err)
		}
	}
	return absent, nil
}

// run runs one suite in a lab of its own.
func (r *runner) run(ctx context.Context, s Suite, round int) Report {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("not ended after %s", r.Timeout))
	defer cancel()
	report := s.report()
	name := fmt.Sprintf("%s-%d", strings.ReplaceAll(report.name(), " ", "-"), round+1)
	err := r.logged(name, func(log io.Writer) error {
		dir := filepath.Join(r.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		list := r.list.For(s.SDK)
		list.Partitioned = s.Partitioned
		l, err := r.open(dir, list)
		if err != nil {
			return err
		}
		report, err = s.run(ctx, l, r.only(list), filepath.Join(dir, "results.jsonl"), log, r.progress(report.name()))
		return errors.Join(err, l.Close())
	})
	if err != nil {
		report.Problem(err)
	}
	return report
}

// only names the scenarios of a suite's list; nothing if all were chosen.
func (r *runner) only(list lab.List) (ids []string) {
	if len(r.Scenarios) == 0 {
		return nil
	}
	for _, s := range list.Scenarios {
		ids = append(ids, s.ID)
	}
	return ids
}

// progress prints a result as it arrives.
func (r *runner) progress(name string) func(Result) {
	marks := map[string]string{pass: shown, fail: failed, notApplicable: cannot}
	return func(result Result) {
		fmt.Fprintf(r.w, "%-6s %-3s %-34s %6.1f s", name, marks[result.Result], result.ID, result.Seconds)
		if result.Error != "" {
			fmt.Fprintf(r.w, "  %s", result.Error)
		}
		fmt.Fprintln(r.w)
	}
}

// show prints a round and counts what failed in it.
func (r *runner) show(round int, reports []Report, took time.Duration) (failures int) {
	fmt.Fprintf(r.w, "\nround %d of %d, %s\n", round+1, r.Rounds, took.Round(100*time.Millisecond))
	printTable(r.w, r.list, reports)
	for _, report := range reports {
		if report.Absent != "" {
			fmt.Fprintf(r.w, "%s not run: %s\n", report.name(), report.Absent)
			if r.CI {
				failures++
			}
		}
		for _, failure := range report.Failures(r.list.For(report.SDK)) {
			fmt.Fprintln(r.w, failure)
			failures++
		}
	}
	return failures
}

// overtime counts a round of all suites as a failure if it took too long, and notes how long it
// took.
func (r *runner) overtime(reports []Report, took time.Duration) (failures int) {
	if all, err := kinds(suites(""), r.Entities); err != nil || len(reports) < len(all) || slices.ContainsFunc(reports, func(r Report) bool { return r.Absent != "" }) {
		return 0
	}
	r.longest = max(r.longest, took)
	if took <= r.budget {
		return 0
	}
	fmt.Fprintf(r.w, "all suites together took %s, and may take %s\n", took, r.budget)
	return 1
}

// tail is how much of a log is shown with an error, in bytes.
const tail = 8 << 10

// logged calls f with a log of that name. An error of f comes back with the end of what the log
// holds.
func (r *runner) logged(name string, f func(io.Writer) error) error {
	path := filepath.Join(r.dir, name+".log")
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	if err = f(log); err == nil {
		return nil
	}
	text, readErr := os.ReadFile(path)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-tail):])
}

// writeTable writes the page of what all rounds have shown.
func (r *runner) writeTable(all []Suite) error {
	var columns []column
	for _, s := range all {
		c := column{SDK: s.SDK, Package: s.Version.Package, Version: unknown}
		for _, report := range r.reports {
			switch {
			case report.SDK != s.SDK || report.Absent != "":
			case report.Partitioned:
				c.Partitioned = append(c.Partitioned, report)
			default:
				c.Rounds = append(c.Rounds, report)
			}
		}
		if len(c.Rounds)+len(c.Partitioned) > 0 { // only then was a version tested
			var err error
			if c.Version, err = s.Version.Read(); err != nil {
				return err
			}
		}
		columns = append(columns, c)
	}
	file, err := os.Create(r.Table)
	if err != nil {
		return err
	}
	return errors.Join(writeCompatibility(file, r.list, columns, r.longest, r.statements), file.Close())
}

// kinds returns the suites for each kind of entities: those of the SDKs run on both, the clients of
// plain AMQP on plain ones.
func kinds(all []Suite, entities string) (some []Suite, err error) {
	if !slices.Contains([]string{plainEntities, partitionedEntities, bothEntities}, entities) {
		return nil, fmt.Errorf("entities are %s, %s or %s; not %q", plainEntities, partitionedEntities, bothEntities, entities)
	}
	for _, s := range all {
		if entities != partitionedEntities {
			some = append(some, s)
		}
		if entities != plainEntities && slices.Contains(lab.SDKs, s.SDK) {
			s.Partitioned = true
			some = append(some, s)
		}
	}
	return some, nil
}

// choose returns the suites named, all if none is.
func choose(all []Suite, names []string) ([]Suite, error) {
	if len(names) == 0 {
		return all, nil
	}
	var some []Suite
	for _, name := range names {
		i := slices.IndexFunc(all, func(s Suite) bool { return s.SDK == name })
		if i < 0 {
			return nil, fmt.Errorf("no suite is called %q; there are %v", name, lab.Clients)
		}
		some = append(some, all[i])
	}
	return some, nil
}
