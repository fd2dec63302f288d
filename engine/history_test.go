package engine

import (
	"strings"
	"testing"
)

func TestCheckHistoryPattern(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*", "orders", "Orders/EU", "orders*", "eu/*/audit", "*a*", "news/Subscriptions/*", "a.b-c_d~e"} {
		if err := CheckHistoryPattern(pattern); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	for _, pattern := range []string{"", "**", "a**b", "/a", "a/", "a//b", "a b", "ü", "a\n", "$ledger", "a?", strings.Repeat("a", maxHistoryPattern+1)} {
		if CheckHistoryPattern(pattern) == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
}
