package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// timeLine is the one line of the page, with the empty one before it, that only a run can know.
var timeLine = regexp.MustCompile(`(?m)^\nAll suites, one after another, took .*\n`)

// checkFresh compares a page with the one that a run would write in which everything was shown that
// the list does not except. It is an error if the page has another scenario, title, note or
// version, or a scenario that was not shown.
func checkFresh(file string, list lab.List, all []Suite, some []statement) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var columns []column
	for _, s := range all {
		version, err := s.Version.Read()
		if err != nil {
			return err
		}
		columns = append(columns, column{SDK: s.SDK, Package: s.Version.Package, Version: version, Rounds: []Report{allShown(s.SDK, list, false)}, Partitioned: []Report{allShown(s.SDK, list, true)}})
	}
	var want bytes.Buffer
	if err := writeCompatibility(&want, list, columns, 0, some); err != nil {
		return err
	}
	if difference := firstDifference(string(timeLine.ReplaceAll(text, nil)), want.String()); difference != "" {
		return fmt.Errorf("%s is not what the list of scenarios and the pinned SDKs come to; make sdk writes it\n%s", file, difference)
	}
	return nil
}

// allShown is the report of a client that has shown everything it can.
func allShown(sdk string, list lab.List, partitioned bool) Report {
	report := NewReport(sdk)
	report.Partitioned = partitioned
	for _, s := range list.For(sdk).Scenarios {
		result := pass
		if s.Why(sdk, partitioned) != "" {
			result = notApplicable
		}
		report.Results[s.ID] = Result{ID: s.ID, Result: result}
	}
	return report
}

// firstDifference shows the first lines that differ; empty: none do.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if line(g, i) != line(w, i) {
			return fmt.Sprintf("there:  %s\nshould: %s", line(g, i), line(w, i))
		}
	}
	return ""
}

// line is a line of a text, or says that the text has ended.
func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}
