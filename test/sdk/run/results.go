package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// Result is one line of a suite's file of results.
type Result struct {
	ID      string  `json:"id"`
	Result  string  `json:"result"` // one of the constants below
	Error   string  `json:"error"`  // why it failed; nothing else
	Seconds float64 `json:"seconds"`
}

// What a suite can say of a scenario.
const (
	pass          = "pass"
	fail          = "fail"
	notApplicable = "n/a"
)

// resultReader reads a file of results while it grows.
type resultReader struct {
	from    io.Reader
	pending []byte // of a line without its end
}

// read returns the results of the lines that were completed since the last call. Lines that are no
// results are an error, and do not keep it from the others.
func (r *resultReader) read() ([]Result, error) {
	more, err := io.ReadAll(r.from)
	r.pending = append(r.pending, more...)
	var results []Result
	for {
		line, rest, whole := bytes.Cut(r.pending, []byte("\n"))
		if !whole {
			return results, err
		}
		r.pending = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var result Result
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if e := dec.Decode(&result); e != nil {
			err = fmt.Errorf("a line of the results is none: %q: %w", line, e)
			continue
		}
		results = append(results, result)
	}
}

// rest reports whether a line has begun and not ended.
func (r *resultReader) rest() bool { return len(bytes.TrimSpace(r.pending)) > 0 }

// Report is what one run of a suite came to.
type Report struct {
	SDK      string
	Absent   string            // why the runtime is of no use; then nothing was run
	Results  map[string]Result // by scenario
	Problems []string          // that belong to no scenario
	Took     time.Duration

	Partitioned bool // of partitioned entities
}

// name is what the report is of, in tables and logs.
func (r Report) name() string {
	if r.Partitioned {
		return r.SDK + " partitioned"
	}
	return r.SDK
}

// NewReport is the report of a suite of which nothing is known yet.
func NewReport(sdk string) Report { return Report{SDK: sdk, Results: map[string]Result{}} }

// Add takes a result. One that cannot be is an error.
func (r *Report) Add(result Result, list lab.List) error {
	if !slices.ContainsFunc(list.Scenarios, func(s lab.Scenario) bool { return s.ID == result.ID }) {
		return fmt.Errorf("result of %q, which was not asked for", result.ID)
	}
	if !slices.Contains([]string{pass, fail, notApplicable}, result.Result) {
		return fmt.Errorf("%s: a result is pass, fail or n/a, not %q", result.ID, result.Result)
	}
	if before, twice := r.Results[result.ID]; twice {
		return fmt.Errorf("%s: a second result, %s, after %s", result.ID, result.Result, before.Result)
	}
	r.Results[result.ID] = result
	return nil
}

// Problem notes what went wrong with the run as a whole.
func (r *Report) Problem(err error) { r.Problems = append(r.Problems, err.Error()) }

// Verdict is what a scenario of a report comes to.
type Verdict struct {
	Mark string // one of the marks below
	Why  string // of a failure
}

// Marks of a table.
const (
	shown   = "✓"
	failed  = "✗"
	cannot  = "n/a"
	unknown = "·" // not run
)

// Verdict judges a scenario: it must have passed, unless the list says that the SDK cannot express
// it.
func (r Report) Verdict(s lab.Scenario) Verdict {
	if r.Absent != "" {
		return Verdict{Mark: unknown}
	}
	result, has := r.Results[s.ID]
	reason := s.Why(r.SDK, r.Partitioned)
	excused := reason != ""
	switch {
	case !has:
		return Verdict{failed, "no result"}
	case result.Result == fail:
		return Verdict{failed, result.Error}
	case result.Result == notApplicable && !excused:
		return Verdict{failed, "n/a, but the list does not say why"}
	case result.Result == pass && excused:
		return Verdict{failed, "passed, but the list says that it cannot: " + reason}
	case result.Result == notApplicable:
		return Verdict{Mark: cannot}
	}
	return Verdict{Mark: shown}
}

// Failures lists everything about a report that must not be.
func (r Report) Failures(list lab.List) []string {
	var all []string
	for _, problem := range r.Problems {
		all = append(all, fmt.Sprintf("%s: %s", r.name(), problem))
	}
	if len(r.Results) == 0 && len(r.Problems) > 0 {
		return all // nothing ran, which is said
	}
	for _, s := range list.Scenarios {
		if v := r.Verdict(s); v.Mark == failed {
			all = append(all, fmt.Sprintf("%s %s: %s", r.name(), s.ID, v.Why))
		}
	}
	return all
}
