package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// statementsFile has the statements of the specification, from the top of the repository.
const statementsFile = "docs/rules/statements.md"

// statement is one about partitioned entities, with what shows it.
type statement struct {
	ID, Text string
	By       []string // scenarios and tests that name it; none: Why says why
	Why      string
}

// unshown are the statements about partitioned entities that no test names, each with a sentence.
var unshown = map[string]string{
	"S4-04": "A figure: [performance](performance.md#partitioned-entities)",
	"S4-08": "Premium namespaces are out of scope",
	"S4-10": "Premium namespaces are out of scope",
	"S4-19": "It promises nothing, and clients must not rely on it",
	"S4-20": "The scenarios above run with the same calls on both kinds",
	"S4-40": "It promises nothing",
	"S4-41": "No SDK has a property for a partition, and the broker sends none: it is in the sequence number alone",
	"S4-44": "Advice",
	"S4-62": "Advice",
	"S4-65": "Premium namespaces are out of scope; the largest message is a setting",
	"S4-69": "The administration clients of all SDKs make the partitioned queues and topics that scenarios need, forward-queue among them",
	"S4-70": "Premium namespaces are out of scope",
}

var (
	statementRow    = regexp.MustCompile(`(?m)^\| (S4-\d\d) \| ([^|]+) \|`)
	statementNumber = regexp.MustCompile(`\bS4-(\d\d)(?: to S4-(\d\d))?`)
	testDoc         = regexp.MustCompile(`(?m)((?:^//.*\n)+)func (Test\w+)\(`)
)

// partitioned are the statements about partitioned entities, with the scenarios and the Go tests
// below root that name them. One that is named nowhere and has no sentence is an error, as is a
// sentence for one that is named.
func partitioned(root string, list lab.List) ([]statement, error) {
	page, err := os.ReadFile(filepath.Join(root, statementsFile))
	if err != nil {
		return nil, err
	}
	tests, err := namedByTests(root)
	if err != nil {
		return nil, err
	}
	var all []statement
	for _, row := range statementRow.FindAllStringSubmatch(string(page), -1) {
		s := statement{ID: row[1], Text: strings.TrimSpace(row[2]), Why: unshown[row[1]]}
		for _, scenario := range list.Scenarios {
			if slices.Contains(scenario.Refs, s.ID) {
				s.By = append(s.By, scenario.ID)
			}
		}
		s.By = append(s.By, tests[s.ID]...)
		if (s.Why == "") == (len(s.By) == 0) {
			return nil, fmt.Errorf("%s has the tests %q and the sentence %q: it needs either (unshown in test/sdk/run)", s.ID, s.By, s.Why)
		}
		all = append(all, s)
	}
	return all, nil
}

// namedByTests are the tests whose comments name a statement about partitioned entities, singly or
// in a range, by statement.
func namedByTests(root string) (map[string][]string, error) {
	named := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "target" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, test := range testDoc.FindAllStringSubmatch(string(text), -1) {
			for _, m := range statementNumber.FindAllStringSubmatch(strings.ReplaceAll(test[1], "\n// ", " "), -1) {
				first, _ := strconv.Atoi(m[1])
				last := first
				if m[2] != "" {
					last, _ = strconv.Atoi(m[2])
				}
				for n := first; n <= last; n++ {
					id, name := fmt.Sprintf("S4-%02d", n), filepath.ToSlash(rel)+"."+test[2]
					if !slices.Contains(named[id], name) {
						named[id] = append(named[id], name)
					}
				}
			}
		}
		return nil
	})
	return named, err
}

// statements are a part of the page.
func (p *page) statements(all []statement) {
	if len(all) == 0 {
		return
	}
	p.printf("\n## Statements about partitioned entities\n\n")
	p.prose("Each statement ([list](rules/statements.md#s4-partitioned-queues-and-topics)), with the scenarios above and the tests that name it.")
	p.printf("| number | statement | shown by |\n| --- | --- | --- |\n")
	for _, s := range all {
		by := s.Why + "."
		if s.Why == "" {
			by = strings.Join(s.By, ", ")
		}
		p.printf("| %s | %s | %s |\n", s.ID, s.Text, by)
	}
}
