package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// plant applies the patches to copies of the files that they change, in a directory. It writes an
// overlay there that puts the copies in the place of those files, and returns its path.
func plant(ctx context.Context, dir string) (overlay string, err error) {
	patches, err := patchFiles()
	if err != nil {
		return "", err
	}
	tree := filepath.Join(dir, "tree")
	replace := map[string]string{}
	for _, patch := range patches {
		text, err := os.ReadFile(patch)
		if err != nil {
			return "", err
		}
		for _, file := range touched(string(text)) {
			if err := copyFile(file, filepath.Join(tree, file)); err != nil {
				return "", err
			}
			from, err := filepath.Abs(file)
			if err != nil {
				return "", err
			}
			replace[from] = filepath.Join(tree, file)
		}
	}
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return "", err
	}
	if err := applyIn(ctx, tree, patches); err != nil {
		return "", fmt.Errorf("%w\nTo mend a patch: go run ./%s apply, edit, go run ./%s save", err, here, here)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// patchFiles lists the patches, by their paths from the top of the repository.
func patchFiles() ([]string, error) {
	if _, err := os.Stat(here); err != nil {
		return nil, fmt.Errorf("%w (the program runs at the top of the repository)", err)
	}
	return filepath.Glob(filepath.Join(here, "*.patch"))
}

var changedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`)

// touched lists the files that a patch changes or adds.
func touched(patch string) (files []string) {
	for _, m := range changedFile.FindAllStringSubmatch(patch, -1) {
		files = append(files, m[1])
	}
	return files
}

// copyFile copies a file. One that does not exist is added by the patch, or missed when that is
// applied.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, text, 0o600))
}

// applyIn applies patches to the files below a directory. Hunks that do not apply are named in the
// error; all others are applied.
func applyIn(ctx context.Context, dir string, patches []string) error {
	if len(patches) == 0 {
		return nil
	}
	args := []string{"apply", "--reject", "--whitespace=nowarn"}
	for _, patch := range patches {
		absolute, err := filepath.Abs(patch)
		if err != nil {
			return err
		}
		args = append(args, absolute)
	}
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	if dir != "." { // no repository that the directory may be in has a say in it
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("a patch of %s does not apply any more: git apply: %w\n%s", here, err, rejected(string(out)))
	}
	return nil
}

// rejected is what git apply says of hunks that do not apply, without what it says of others.
func rejected(out string) string {
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "Checking patch ") || strings.HasPrefix(line, "Hunk #") ||
			strings.HasPrefix(line, "Applied patch ") && strings.HasSuffix(line, " cleanly.")
	})
	return strings.Join(lines, "\n")
}

var switched = regexp.MustCompile(`\bplanted\("(\w+)"\)`)

// switches lists the ids that patches ask for.
func switches(patches []string) (ids []string) {
	for _, patch := range patches {
		for line := range strings.Lines(patch) {
			if strings.HasPrefix(line, "+") {
				for _, m := range switched.FindAllStringSubmatch(line, -1) {
					ids = append(ids, m[1])
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// unlike says where the switches of the patches are not those of the bugs.
func unlike(bugs []bug, ids []string) error {
	var errs []error
	for _, b := range bugs {
		if !slices.Contains(ids, b.id) {
			errs = append(errs, fmt.Errorf(`%s of %s/bugs.go is in no patch: none has planted("%s")`, b.id, here, b.id))
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(bugs, func(b bug) bool { return b.id == id }) {
			errs = append(errs, fmt.Errorf(`a patch has planted("%s"), which %s/bugs.go does not list`, id, here))
		}
	}
	return errors.Join(errs...)
}
