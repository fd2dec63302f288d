//go:build mutants

package mutant

import "os"

var active = Bug(os.Getenv("LEDGERBUS_MUTANT"))

// On reports whether the planted bug is switched on.
func On(b Bug) bool { return b == active }
