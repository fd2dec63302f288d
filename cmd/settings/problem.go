package settings

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong in what a person wrote.
type Problem struct {
	Where string // file:line: path, flag or environment variable
	Text  string
}

func (p Problem) String() string {
	if p.Where == "" {
		return p.Text
	}
	return p.Where + ": " + p.Text
}

// Problems is everything that is wrong, as one error.
type Problems []Problem

// Error lists all problems, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps *Problems) add(where, format string, args ...any) {
	*ps = append(*ps, Problem{Where: where, Text: fmt.Sprintf(format, args...)})
}

// err is ps as an error, nil when there is no problem.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}
