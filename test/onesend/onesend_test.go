package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the beginning of the names of our files in a profile.
const module = "github.com/ledgerbus/ledgerbus/"

// most is how many files of the product one plain send with its answer executes. It may only shrink.
const most = 117

// TestFilesOfOneSend counts the files of the product that take part in one plain send to a queue, from
// the bytes on the connection to the answer. Whoever follows a message reads these.
func TestFilesOfOneSend(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds the broker anew, with counters")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "onesend")
	command(t, nil, "go", "build", "-cover", "-covermode", "atomic", "-coverpkg", module+"...", "-o", binary, ".")
	command(t, []string{"GOCOVERDIR=" + t.TempDir()}, binary, dir) // what it writes at its end is of no interest
	all := executed(t, filepath.Join(dir, "1"))
	for round := 2; round <= rounds; round++ {
		again := executed(t, filepath.Join(dir, fmt.Sprint(round)))
		all = slices.DeleteFunc(all, func(file string) bool { return !slices.Contains(again, file) })
	}
	t.Logf("%d files:\n%s", len(all), strings.Join(all, "\n"))
	switch n := len(all); {
	case n > most:
		t.Errorf("one send executes %d files, and there were to be at most %d", n, most)
	case n < most:
		t.Errorf("one send executes only %d files now, well done: write %d in place of %d as most", n, n, most)
	}
}

// executed lists the files of the product of which something was executed at least once for each send
// of a round. The last send may not be quite over when the counters are written.
func executed(t *testing.T, dir string) (files []string) {
	t.Helper()
	profile := dir + ".txt"
	command(t, nil, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile)
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(module) + `(.+\.go):\S+ \d+ (\d+)$`)
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if n, err := strconv.Atoi(m[2]); err != nil || n < sends-1 || strings.HasPrefix(m[1], "tools/") || strings.HasPrefix(m[1], "test/") {
			continue
		}
		files = append(files, m[1])
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// command runs a command, which has to succeed.
func command(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}
