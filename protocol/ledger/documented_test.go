package ledger

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// The guide describes every request, status and state, and no others.
func TestDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/guide/ledger-api.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(text)
	expect := func(line string) {
		t.Helper()
		if !strings.Contains(guide, line) {
			t.Errorf("the guide has no %s", line)
		}
	}
	for _, r := range routes {
		expect(fmt.Sprintf("| `%s %s/%s` | %v |", r.method, wire.Prefix, r.path, r.right))
	}
	if n := strings.Count(guide, "` | Manage |") + strings.Count(guide, "` | ReadHistory |"); n != len(routes) {
		t.Errorf("the guide has %d requests, the table %d", n, len(routes))
	}
	for status, code := range codes {
		expect(fmt.Sprintf("| %d | `%s` |", status, code))
	}
	if n := strings.Count(guide, "\n| 4") + strings.Count(guide, "\n| 5"); n != len(codes) {
		t.Errorf("the guide has %d statuses, the table %d", n, len(codes))
	}
	for s := engine.PartitionServing; s <= engine.PartitionRefused; s++ {
		expect("`" + s.String() + "`")
	}
}
