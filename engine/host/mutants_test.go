//go:build mutants

package host

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// findEach runs, for each planted bug, the test that is to find it in a child process, and demands that it does, and finds nothing without the bug.
func findEach(t *testing.T, finders map[mutant.Bug]string) {
	t.Helper()
	for bug, finder := range finders {
		for _, planted := range []mutant.Bug{"", bug} {
			t.Run(finder+" bug "+string(planted), func(t *testing.T) {
				t.Parallel()
				if out, err := child(t, planted, "-test.run", "^"+finder+"$", "-test.count", "3", "-test.failfast", "-test.timeout", "10s"); (err != nil) != (planted != "") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// child runs tests of this package in a process that has a bug planted, and returns what they print. There it has nothing to do.
func child(t *testing.T, bug mutant.Bug, args ...string) ([]byte, error) {
	t.Helper()
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(bug))
	return cmd.CombinedOutput()
}
