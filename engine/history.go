package engine

import "strings"

// maxHistoryPattern is the longest pattern, bytes: longer than any path.
const maxHistoryPattern = 512

// CheckHistoryPattern refuses a text that cannot be the pattern of a policy. A pattern is the path of an entity, in any letter case, in which a
// star stands for any characters, slashes among them, or for none.
func CheckHistoryPattern(pattern string) *Error {
	switch {
	case pattern == "":
		return Refuse(InvalidArgument, "The pattern is empty; * is every entity.")
	case len(pattern) > maxHistoryPattern:
		return Refuse(InvalidArgument, "The pattern has %d bytes; %d are the most.", len(pattern), maxHistoryPattern)
	case strings.Contains(pattern, "**"):
		return Refuse(InvalidArgument, "The pattern has two stars side by side, which mean no more than one.")
	case strings.HasPrefix(pattern, "/") || strings.HasSuffix(pattern, "/") || strings.Contains(pattern, "//"):
		return Refuse(InvalidArgument, "The pattern has a slash at an end, or two of them side by side, where no path has.")
	}
	for _, c := range pattern {
		if !alphanumeric(c) && !strings.ContainsRune("*/.-_~", c) {
			return Refuse(InvalidArgument, "The pattern has %q, which no path has.", c)
		}
	}
	return nil
}
