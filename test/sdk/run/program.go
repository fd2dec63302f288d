package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Program is one that a suite needs.
type Program struct {
	Name string
	// arguments that make it tell its version, or fail if it is not complete; none: it only has to
	// be there
	Asked  []string
	Oldest string // version that will do, as "3.10"
}

// answerTimeout is how long a program may take to tell its version. A cold start of a large runtime
// takes seconds.
const answerTimeout = 30 * time.Second

// problem says why the program is of no use; empty: it will do.
func (p Program) problem(ctx context.Context) string {
	if _, err := exec.LookPath(p.Name); err != nil {
		return p.Name + " is not installed"
	}
	if len(p.Asked) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	// java answers on standard error
	answer, err := exec.CommandContext(ctx, p.Name, p.Asked...).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
		return fmt.Sprintf("%s: %s (%v)", p.Name, lines[len(lines)-1], err)
	}
	version := versionPattern.FindString(string(answer))
	if version == "" {
		return fmt.Sprintf("%s does not tell its version, and %s is needed", p.Name, p.Oldest)
	}
	if older(version, p.Oldest) {
		return fmt.Sprintf("%s %s is installed, %s is needed", p.Name, version, p.Oldest)
	}
	return ""
}

// versionPattern is the first thing that looks like a version in an answer.
var versionPattern = regexp.MustCompile(`\d+(\.\d+)*`)

// older compares versions number by number. One that ends early is older than any that goes on from
// there.
func older(version, than string) bool {
	v, t := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(v), len(t)) {
		x, _ := strconv.Atoi(v[i]) // digits, as the pattern says
		y, _ := strconv.Atoi(t[i])
		if c := cmp.Compare(x, y); c != 0 {
			return c < 0
		}
	}
	return len(v) < len(t)
}
