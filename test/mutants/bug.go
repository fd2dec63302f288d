package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bug is one bug that the patches plant.
type bug struct {
	id      string // by which the patches switch it on: planted("M1")
	what    string // goes wrong
	finders []finder
}

// of makes a row of bugs.
func of(id, what string, finders ...finder) bug { return bug{id, what, finders} }

// finder is a test that has to fail while a bug is planted, and to pass while none is.
type finder struct {
	suite string   // directory of the test's package
	test  string   // regular expression of its name
	args  []string // further arguments of the test binary
	finds string   // regular expression of what it says then; empty: that it fails is enough
	clean []string // arguments in place of args where nothing is planted; nil: the same
}

// in makes a finder of a test of a package.
func in(suite, test string, args ...string) finder {
	return finder{suite: suite, test: test, args: args}
}

// brief makes a finder of a test that some bugs leave waiting for ever: a limit of time ends it. It
// has none where nothing is planted, so that a busy machine is no failure.
func brief(suite, test string) finder {
	f := in(suite, test, "-test.count", "3", "-test.failfast", "-test.timeout", "10s")
	f.clean = []string{"-test.count", "3", "-test.failfast"}
	return f
}

// sim makes a finder of the simulation: within so many seeds it has to see that one of the
// invariants of reliability.md 5 is broken. Seeds run one after another, so that the first
// violation is always the same.
func sim(seeds int, broken ...string) finder { return seeded(seeds, 300, false, broken) }

// damaged makes a finder as sim does, of those seeds that damage files.
func damaged(seeds int, broken ...string) finder { return seeded(seeds, 2000, true, broken) }

func seeded(seeds, clean int, damage bool, broken []string) finder {
	args := func(seeds int) []string {
		return []string{"-test.v", "-test.cpu", "1", "-seeds", strconv.Itoa(seeds), fmt.Sprint("-damage=", damage)}
	}
	var names []string
	for _, invariant := range broken {
		names = append(names, regexp.QuoteMeta(invariant))
	}
	finds := `VIOLATION seed \d+: (` + strings.Join(names, "|") + `) broken `
	return finder{suite: "test/sim", test: "TestSim", args: args(seeds), finds: finds, clean: args(clean)}
}

// ports makes a finder of TestPorts, which has to say what a seed came to.
func ports(says string) finder {
	return finder{suite: "engine/loop", test: "TestPorts", args: []string{"-ports", "500"}, finds: `seed \d+: .*(` + says + `)`}
}

// faults makes a finder of the tests of what is refused while the disk hangs or there is no memory.
func faults(says string) finder {
	return finder{suite: "engine/loop", test: "(TestF22|TestF11).*", finds: says}
}

// alive are the invariants that are broken when a lock that has ended counts as alive, for a
// settlement or for whoever is next; or when the answer that refuses a settlement comes before the
// fact of it is in the log.
var alive = []string{"I1", "I6", "I5", "I10", "I17", "I26", "P21"}

// trial is one run of a finder, with a bug planted or none.
type trial struct {
	bug string // id; empty: none
	finder
}

func (t trial) String() string {
	if t.bug == "" {
		return fmt.Sprintf("nothing: ./%s %s", t.suite, t.test)
	}
	return fmt.Sprintf("%s: ./%s %s", t.bug, t.suite, t.test)
}

// trials are the runs of the finders in suites, of bugs whose ids match: each with its bug, and
// each test once with none. No suites: all there are.
func trials(bugs []bug, suites []string, only *regexp.Regexp) (all []trial) {
	seen := map[string]bool{}
	for _, b := range bugs {
		for _, f := range b.finders {
			if len(suites) > 0 && !slices.Contains(suites, f.suite) || !only.MatchString(b.id) {
				continue
			}
			all = append(all, trial{b.id, f})
			if f.clean != nil {
				f.args = f.clean
			}
			f.finds = ""
			if none := (trial{"", f}); !seen[fmt.Sprint(none, f.args)] {
				seen[fmt.Sprint(none, f.args)] = true
				all = append(all, none)
			}
		}
	}
	return all
}
