package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// source describes the source of a build.
type source struct {
	dir     string // of the sources
	version string // of the release, or development
	commit  string // "" outside a git repository
	// time of the commit: files and images carry it, so that they do not depend on the time of the
	// build
	created time.Time
}

// development is the version of a build without one.
const development = "development"

// sourceOf reads the repository of a directory. SOURCE_DATE_EPOCH overrides the time of the commit,
// as in other tools with reproducible builds.
func sourceOf(dir, version string) (source, error) {
	from := source{dir: dir, version: version, created: time.Unix(0, 0).UTC()}
	var err error
	if from.commit, err = git(dir, "rev-parse", "HEAD"); err != nil {
		return from, err
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if from.commit != "" {
		if from.version == "" {
			// most commits have no tag
			from.version, _ = git(dir, "describe", "--tags", "--exact-match")
		}
		if changes, err := git(dir, "status", "--porcelain"); err != nil {
			return from, err
		} else if changes != "" {
			from.commit += "-modified"
		}
		if seconds == "" {
			if seconds, err = git(dir, "show", "--no-patch", "--format=%ct", "HEAD"); err != nil {
				return from, err
			}
		}
	}
	if seconds != "" {
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return from, fmt.Errorf("%q is not a time in seconds: %w", seconds, err)
		}
		from.created = time.Unix(n, 0).UTC()
	}
	if from.version == "" {
		from.version = development
	}
	return from, nil
}

// git runs a git command that only reads. Without git or outside a repository the answer is empty.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound), strings.Contains(stderr.String(), "not a git repository"):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// buildBinary builds the static binary of a command for an architecture.
func buildBinary(command, file, arch string, from source) error {
	link := "-s -w -buildid="
	if from.version != development {
		link += " -X github.com/ledgerbus/ledgerbus/internal/program.version=" + from.version
	}
	out, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", link, "-o", out, "github.com/ledgerbus/ledgerbus/cmd/"+command)
	cmd.Dir = from.dir
	// Settings for code generation in the caller's environment must not affect the result.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w\n%s", arch, err, text)
	}
	return nil
}
