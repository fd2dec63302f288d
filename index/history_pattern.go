package index

import "strings"

// patternMatches reports whether a pattern matches a path. Both are in lower case.
func patternMatches(pattern, path string) bool {
	first, rest, starred := strings.Cut(pattern, "*")
	path, ok := strings.CutPrefix(path, first)
	for ok && starred {
		var part string
		part, rest, starred = strings.Cut(rest, "*")
		if !starred {
			return strings.HasSuffix(path, part)
		}
		_, path, ok = strings.Cut(path, part)
	}
	return ok && path == ""
}

// comparePatterns orders patterns, more specific ones first: those with more characters other than
// stars, then those with fewer stars, then by alphabet. Both are in lower case.
func comparePatterns(a, b string) int {
	starsA, starsB := strings.Count(a, "*"), strings.Count(b, "*")
	if d := (len(b) - starsB) - (len(a) - starsA); d != 0 {
		return d
	}
	if d := starsA - starsB; d != 0 {
		return d
	}
	return strings.Compare(a, b)
}
