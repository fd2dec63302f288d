// Package changes finds out which files a change concerns, so that what takes long runs only where
// it may find something new.
package changes

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// upstream is the branch that changes are taken into.
const upstream = "origin/main"

// Files are those that have changed, by their paths from the top of the repository.
type Files struct {
	// Base is the commit since which they have changed; empty: nobody knows, and each file may
	// have.
	Base  string
	paths []string
}

// Since returns the files that differ from a commit, with those that are not committed yet. Where
// no commit is named, that is where the branch has left upstream, and on upstream itself the commit
// before.
func Since(ctx context.Context, commit string) (Files, error) {
	if commit == "" {
		commit = usual(ctx)
	}
	base, err := git(ctx, "rev-parse", "--verify", "--quiet", commit+"^{commit}")
	if err != nil || len(base) != 1 { // a clone without its history, or no clone at all
		return Files{}, ctx.Err()
	}
	changed, err := git(ctx, "diff", "--name-only", "--no-renames", base[0])
	if err != nil {
		return Files{}, err
	}
	added, err := git(ctx, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return Files{}, err
	}
	return Files{Base: commit, paths: append(changed, added...)}, nil
}

// usual is the commit that a change is on top of, if nobody says so.
func usual(ctx context.Context) string {
	left, err := git(ctx, "merge-base", "HEAD", upstream)
	head, e := git(ctx, "rev-parse", "HEAD")
	if err != nil || e != nil || len(left) != 1 || left[0] == head[0] {
		return "HEAD~1"
	}
	return left[0]
}

// Below reports whether a file whose path begins with one of the prefixes has changed, or may have.
func (f Files) Below(prefixes ...string) bool {
	if f.Base == "" {
		return true
	}
	for _, path := range f.paths {
		for _, prefix := range prefixes {
			if strings.HasPrefix(path, prefix) {
				return true
			}
		}
	}
	return false
}

// git returns the lines that git prints.
func git(ctx context.Context, args ...string) ([]string, error) {
	text, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), nil
}
