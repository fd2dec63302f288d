package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// apply plants all bugs in the working tree. There must be nothing in it that is neither committed
// nor staged, for all that there is then belongs to the patches.
func apply(ctx context.Context, w io.Writer) error {
	patches, err := patchFiles()
	if err != nil {
		return err
	}
	changed, added, err := unstaged(ctx)
	if err != nil {
		return err
	}
	if mine := append(changed, added...); len(mine) > 0 {
		return fmt.Errorf("stage or commit first what is not to be in a patch (git add): %s", strings.Join(mine, ", "))
	}
	if err := applyIn(ctx, ".", patches); err != nil {
		return fmt.Errorf("%w\nWhat was rejected is in files beside, *.rej: edit it into the product by hand, remove those files, and then go run ./%s save", err, here)
	}
	fmt.Fprintf(w, "all bugs are in the working tree; edit, and then: go run ./%s save\n", here)
	return nil
}

// save makes the patch of each package in which files differ from what is staged or committed, and
// then takes those differences out of the working tree. The patches must then have the switches of
// bugs.go; otherwise nothing changes.
func save(ctx context.Context, bugs []bug, w io.Writer) error {
	old, err := patchFiles()
	if err != nil {
		return err
	}
	changed, added, err := unstaged(ctx)
	if err != nil {
		return err
	}
	made, err := diffs(ctx, changed, added)
	if err != nil {
		return err
	}
	if len(made) == 0 {
		return fmt.Errorf("nothing has changed in the working tree; begin with go run ./%s apply", here)
	}
	texts := slices.Collect(maps.Values(made))
	for _, patch := range old {
		if made[patch] == "" {
			text, err := os.ReadFile(patch)
			if err != nil {
				return err
			}
			texts = append(texts, string(text))
		}
	}
	if err := unlike(bugs, switches(texts)); err != nil {
		return fmt.Errorf("nothing is saved:\n%w\n(was there go run ./%s apply before the edit?)", err, here)
	}
	for _, patch := range slices.Sorted(maps.Keys(made)) {
		if err := os.WriteFile(patch, []byte(made[patch]), 0o600); err != nil {
			return err
		}
		fmt.Fprintln(w, patch)
	}
	for _, file := range added {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	_, err = git(ctx, append([]string{"checkout", "--"}, changed...)...)
	return err
}

// unstaged lists the files of the working tree that differ from what is staged or committed, and
// those that git does not know, but for the ones of this directory.
func unstaged(ctx context.Context) (changed, added []string, err error) {
	lines := func(args ...string) (files []string) {
		out, e := git(ctx, append(args, "--", ".", ":!"+here)...)
		err = errors.Join(err, e)
		return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })
	}
	changed = lines("diff", "--name-only", "--no-renames")
	added = lines("ls-files", "--others", "--exclude-standard")
	return changed, added, err
}

// diffs makes the patches of files that have changed or are new, by the path of each.
func diffs(ctx context.Context, changed, added []string) (map[string]string, error) {
	made := map[string]string{}
	take := func(file string, args ...string) error {
		if strings.HasSuffix(file, ".rej") {
			return fmt.Errorf("%s is still there: edit it into the product, and remove it", file)
		}
		args = append([]string{"diff", "--no-color", "--no-ext-diff", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/"}, args...)
		out, err := git(ctx, args...)
		made[patchOf(file)] += withoutIndex(out)
		return err
	}
	for _, file := range changed {
		if err := take(file, "--", file); err != nil {
			return nil, err
		}
	}
	for _, file := range added {
		if err := take(file, "--no-index", "--", os.DevNull, file); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// patchOf is the patch of a file: that of its package.
func patchOf(file string) string {
	return filepath.Join(here, strings.ReplaceAll(path.Dir(file), "/", "-")+".patch")
}

// withoutIndex leaves out the lines with the names of blobs, which change with every line of a
// file.
func withoutIndex(patch string) string {
	var kept strings.Builder
	for line := range strings.Lines(patch) {
		if !strings.HasPrefix(line, "index ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// git returns what git prints.
func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && slices.Contains(args, "--no-index") {
		err = nil // it found a difference
	} else if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}
