package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"
)

// variable is the environment variable that names the bug which is on in a process.
const variable = "LEDGERBUS_MUTANT"

// build compiles the test binary of each suite of the trials with the files of an overlay in place
// of those of the tree. It returns them by suite.
func build(ctx context.Context, dir, overlay string, list []trial) (map[string]string, error) {
	binaries := map[string]string{}
	into := filepath.Join(dir, "bin") + string(filepath.Separator)
	args := []string{"test", "-c", "-overlay", overlay, "-o", into}
	for _, t := range list {
		if binaries[t.suite] == "" {
			binaries[t.suite] = filepath.Join(into, path.Base(t.suite)+".test")
			args = append(args, "./"+t.suite)
		}
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the product with all patches of %s does not compile: %w\n%s", here, err, out)
	}
	return binaries, nil
}

// carryOut runs the trials, as many at a time as there are processors, and says of each what came
// of it. The error says how many came to something else than they should.
func carryOut(ctx context.Context, binaries map[string]string, list []trial, w io.Writer) error {
	var group sync.WaitGroup
	var mu sync.Mutex // of w and wrong
	wrong := 0
	began, next := time.Now(), make(chan trial)
	for range runtime.NumCPU() {
		group.Go(func() {
			for t := range next {
				began := time.Now()
				said, err := t.run(ctx, binaries[t.suite])
				mu.Lock()
				switch {
				case ctx.Err() != nil: // what was interrupted has not failed
				case err != nil:
					wrong++
					fmt.Fprintf(w, "FAILED %v: %v\n", t, err)
				default:
					fmt.Fprintf(w, "ok %v (%s) %s\n", t, time.Since(began).Round(time.Millisecond), said)
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range list {
		if ctx.Err() == nil {
			next <- t
		}
	}
	close(next)
	group.Wait()
	fmt.Fprintf(w, "%d trials, %s\n", len(list), time.Since(began).Round(time.Second))
	if wrong > 0 {
		return fmt.Errorf("%d of %d trials failed", wrong, len(list))
	}
	return ctx.Err()
}

// run carries out the trial and returns what the finder said by which the bug is known. The error
// says that the bug was not found, or not as what it is, or that something was found where none is
// planted.
func (t trial) run(ctx context.Context, binary string) (said string, err error) {
	cmd := exec.CommandContext(ctx, binary, slices.Concat([]string{"-test.run", "^" + t.test + "$"}, t.args)...)
	cmd.Dir = filepath.FromSlash(t.suite)
	cmd.Env = append(os.Environ(), variable+"="+t.bug)
	out, err := cmd.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case err != nil && !errors.As(err, &exit):
		return "", err
	case t.bug == "" && err != nil:
		return "", fmt.Errorf("nothing is planted, and the test fails:\n%s", out)
	case t.bug != "" && err == nil:
		return "", fmt.Errorf("the bug is planted, and the test passes:\n%s", out)
	}
	known := regexp.MustCompile(t.finds)
	if !known.Match(out) {
		return "", fmt.Errorf("the bug is not found as what it is, %s:\n%s", t.finds, out)
	}
	return string(known.Find(out)), nil
}
