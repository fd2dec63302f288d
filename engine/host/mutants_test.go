//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// find demands that each test finds its bug. Some of these bugs leave a test waiting for ever, so a child process has little time.
func find(t *testing.T, finders map[mutant.Bug]string) {
	t.Helper()
	planted.Find(t, finders, "-test.count", "3", "-test.failfast", "-test.timeout", "10s")
}
