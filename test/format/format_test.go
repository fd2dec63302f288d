package format

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/tools"
)

// read runs the reader. Where there is no Python the test is left out; with CI=true that is a
// failure, as for the SDKs.
func read(t *testing.T, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf(`%+v; want os.Getenv("CI") != "true"`, err)
		}
		t.Skip(err)
	}
	// opened here, so that go test runs again when they have changed
	for _, source := range []string{"read.py", "records.py", "sealed.py"} {
		if _, err := os.ReadFile(source); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), python, append([]string{"-B", "read.py"}, arguments...)...)
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v; want no error or an exit code", err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// agree has both readers read a directory that is not damaged: every line must be the same.
func agree(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, o := range []tools.DumpOptions{{Partition: -1, JSON: true, Bodies: true}, {Partition: -1, JSON: true}} {
		var want bytes.Buffer
		if err := tools.Dump(&want, dir, o); err != nil {
			t.Fatal(err)
		}
		arguments := []string{dir}
		if o.Bodies {
			arguments = append(arguments, "--bodies")
		}
		got, errs, code := read(t, arguments...)
		if code != 0 || errs != "" {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		lines = strings.SplitAfter(want.String(), "\n")
		for i, line := range strings.SplitAfter(got, "\n") {
			if i >= len(lines) || line != lines[i] {
				t.Fatalf("line %d:\n%swant\n%s", i+1, line, strings.Join(lines[min(i, len(lines)):min(i+1, len(lines))], ""))
			}
		}
		if got != want.String() {
			t.Fatalf("%d bytes, want %d", len(got), want.Len())
		}
	}
	return lines[:len(lines)-1]
}

// segments are the segment files of a directory.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "wal", "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no segment file", err)
	}
	return files
}
