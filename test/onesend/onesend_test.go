package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the beginning of the names of our files in a profile.
const module = "github.com/ledgerbus/ledgerbus/"

// most is how many files of the product one plain send with its answer executes. It may only
// shrink.
const most = 116

// page has the list of these files, and heading begins it.
const (
	page    = "../../docs/ARCHITECTURE.md"
	heading = "\n## The files of one send\n"
)

// TestFilesOfOneSend counts the files of the product that take part in one plain send to a queue,
// from the bytes on the connection to the answer, and compares them with the list of the page.
// Whoever follows a message reads these.
func TestFilesOfOneSend(t *testing.T) {
	t.Parallel()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("it builds the broker anew, with counters; the list has files for Linux")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "onesend")
	command(t, nil, "go", "build", "-cover", "-covermode", "atomic", "-coverpkg", module+"...", "-o", binary, ".")
	// what it writes at its end is of no interest
	command(t, []string{"GOCOVERDIR=" + t.TempDir()}, binary, dir)
	all := executed(t, filepath.Join(dir, "1"))
	for round := 2; round <= rounds; round++ {
		again := executed(t, filepath.Join(dir, fmt.Sprint(round)))
		all = slices.DeleteFunc(all, func(file string) bool { return !slices.Contains(again, file) })
	}
	switch n := len(all); {
	case n > most:
		t.Errorf("one send executes %d files, and there were to be at most %d", n, most)
	case n < most:
		t.Errorf("one send executes only %d files now, well done: write %d in place of %d as most", n, n, most)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), heading)
	section, _, _ = strings.Cut(section, "\n## ")
	dirs, named := listed(section)
	list := written(all, dirs)
	t.Logf("%d files:\n%s", len(all), list)
	if slices.Sort(named); !slices.Equal(named, all) {
		t.Errorf("%s does not have these files under%sThe list as it is now:\n\n%s", page, heading, list)
	}
}

var (
	item  = regexp.MustCompile("(?m)^- `([^`]+)`:(.*(?:\\n  .*)*)$")
	named = regexp.MustCompile("`([^`]+\\.go)`")
)

// listed returns the packages of a list, in its order, and the files.
func listed(section string) (dirs, files []string) {
	for _, m := range item.FindAllStringSubmatch(section, -1) {
		dirs = append(dirs, m[1])
		for _, name := range named.FindAllStringSubmatch(m[2], -1) {
			files = append(files, m[1]+"/"+name[1])
		}
	}
	return dirs, files
}

// written writes files as the list of the page, with packages in an order; those that it does not
// have come behind.
func written(files, order []string) string {
	byDir := map[string][]string{}
	for _, file := range files {
		dir, name := path.Split(file)
		dir = path.Clean(dir)
		byDir[dir] = append(byDir[dir], "`"+name+"`")
		if !slices.Contains(order, dir) {
			order = append(order, dir)
		}
	}
	var list strings.Builder
	for _, dir := range order {
		if len(byDir[dir]) == 0 {
			continue
		}
		line := "- `" + dir + "`:"
		for i, name := range byDir[dir] {
			if i < len(byDir[dir])-1 {
				name += ","
			}
			if len(line)+1+len(name) > 100 {
				list.WriteString(line + "\n")
				line = " "
			}
			line += " " + name
		}
		list.WriteString(line + "\n")
	}
	return list.String()
}

// executed lists the files of the product of which something was executed at least once for each
// send of a round. The last send may not be quite over when the counters are written.
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

// A list that was written is read as the same files, in the order of packages that it was written
// in.
func TestList(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 20 {
		files = append(files, fmt.Sprintf("a/b/long_name_of_file_%02d.go", i))
	}
	files = append(files, "c/d.go")
	list := written(files, []string{"c", "gone"})
	dirs, named := listed("\nSome words.\n\n" + list)
	slices.Sort(named)
	if !slices.Equal(dirs, []string{"c", "a/b"}) || !slices.Equal(named, files) {
		t.Errorf("packages %q, files %q of\n%s", dirs, named, list)
	}
}
