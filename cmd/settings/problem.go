package settings

import (
	"fmt"
	"strings"
)

// Problem is one mistake in the settings.
type Problem struct {
	Where string // file:line: path, flag or environment variable
	Text  string
}

// Note tells about a setting that is accepted and should be changed: it has an old spelling, or no
// effect any more.
type Note struct {
	Where string // file:line: path, flag or environment variable
	Old   string // a key or a value
	New   string // what to write instead
	Fixed bool   // Old is a former setting, and New its fixed value
}

func (p Problem) String() string {
	if p.Where == "" {
		return p.Text
	}
	return p.Where + ": " + p.Text
}

// Problems are all mistakes, as one error.
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

// err returns ps as an error, nil when there is no problem.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}
