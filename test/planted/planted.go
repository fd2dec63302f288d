// Package planted runs the tests of a package again in a process that has a bug planted (internal/mutant), and demands that they find it.
package planted

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// Run runs this test binary once more with bug planted, "" for none, and args as its arguments. It returns what that prints, and whether a test failed.
// In such a process it skips the test that calls it, so a test that matches its own pattern does not run itself for ever.
func Run(t *testing.T, bug mutant.Bug, args ...string) (out []byte, failed bool) {
	t.Helper()
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("a bug is planted already: " + os.Getenv("LEDGERBUS_MUTANT"))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(bug))
	out, err = cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out, err != nil
}

// Find demands that the tests that finders names by a pattern fail when their bug is planted, and pass when none is. Each runs in a subtest;
// args are further arguments of the test binary.
func Find(t *testing.T, finders map[mutant.Bug]string, args ...string) {
	t.Helper()
	for _, finder := range slices.Compact(slices.Sorted(maps.Values(finders))) {
		find(t, finder, "", args)
	}
	for bug, finder := range finders {
		find(t, finder, bug, args)
	}
}

func find(t *testing.T, finder string, bug mutant.Bug, args []string) {
	t.Helper()
	name := finder + " with " + string(bug)
	if bug == "" {
		name = finder + " with nothing planted"
	}
	t.Run(name, func(t *testing.T) {
		args := append([]string{"-test.run", "^" + finder + "$"}, args...)
		if bug == "" { // a limit in args is for a bug that makes the test hang: a busy machine is none
			args = append(args, "-test.timeout", "0")
		}
		out, failed := Run(t, bug, args...)
		switch {
		case bug == "" && failed:
			t.Errorf("nothing is planted, and the test fails:\n%s", out)
		case bug != "" && !failed:
			t.Errorf("%s is planted, and the test passes:\n%s", bug, out)
		}
	})
}
