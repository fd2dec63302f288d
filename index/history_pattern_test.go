package index

import (
	"slices"
	"testing"
)

func TestHistoryPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern      string
		match, other []string
	}{
		{"*", []string{"a", "a/b", "t/subscriptions/s"}, nil},
		{"orders", []string{"orders"}, []string{"orders2", "order", "my/orders", ""}},
		{"orders*", []string{"orders", "orders2", "orders/eu", "orders/subscriptions/s"}, []string{"order", "myorders"}},
		{"*orders", []string{"orders", "eu/orders"}, []string{"orders/eu"}},
		{"eu/*/audit", []string{"eu/a/audit", "eu/a/b/audit", "eu//audit"}, []string{"eu/audit", "eu/a/audits"}},
		{"a*b*c", []string{"abc", "aXbYc", "abbc", "abcbc"}, []string{"acb", "ab", "abcd"}},
		{"*a*", []string{"a", "bab"}, []string{"b", ""}},
		{"ab*ba", []string{"abba", "abXba"}, []string{"aba"}},
	} {
		for _, path := range c.match {
			if !patternMatches(c.pattern, path) {
				t.Errorf("%q does not match %q", c.pattern, path)
			}
		}
		for _, path := range c.other {
			if patternMatches(c.pattern, path) {
				t.Errorf("%q matches %q", c.pattern, path)
			}
		}
	}
	order := []string{"orders/eu/berlin", "orders/eu/*", "*/eu/orders", "orders/*", "orders*", "*orders", "o*s", "*"}
	sorted := slices.Clone(order)
	slices.Reverse(sorted)
	slices.SortFunc(sorted, comparePatterns)
	if !slices.Equal(sorted, []string{"orders/eu/berlin", "*/eu/orders", "orders/eu/*", "orders/*", "*orders", "orders*", "o*s", "*"}) {
		t.Errorf("the most specific first: %q", sorted)
	}
}
