//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// find demands of each test that it finds its bug. Some of these bugs leave a test waiting, so a child has little time.
func find(t *testing.T, finders map[mutant.Bug]string) {
	t.Helper()
	planted.Find(t, finders, "-test.count", "3", "-test.failfast", "-test.timeout", "10s")
}
