package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// target is a fuzz target.
type target struct {
	dir  string // of its package, from the top of the repository
	name string
}

func (t target) String() string { return t.pkg() + " " + t.name }

func (t target) pkg() string { return "./" + filepath.ToSlash(t.dir) }

// shares are the targets whose executions cost more than a decoder's, with how many executions of a
// decoder one of theirs stands for.
var shares = map[string]int{
	"FuzzVerify":     500, // makes a data directory and verifies it
	"FuzzDirectory":  500, // makes a data directory and asks questions of it
	"FuzzConnection": 10,  // runs a connection from its first byte to its last
}

// executions is how often the target runs where a decoder runs count times; never 0, which go test
// takes for no limit.
func (t target) executions(count int) int { return max(1, count/max(1, shares[t.name])) }

// grace is how long go test, told to end, may take for that.
const grace = 10 * time.Second

// run fuzzes the target. Everything that go test says goes to w while it runs. The failure is nil
// if there was none.
func (t target) run(ctx context.Context, count int, w io.Writer) *failure {
	args := []string{
		"test", "-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", fmt.Sprintf("%dx", t.executions(count)), "-fuzzminimizetime", "10x", t.pkg(),
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout = io.MultiWriter(w, &said)
	cmd.Stderr = cmd.Stdout
	// at which the fuzzer ends its workers
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	if err == nil && bytes.Contains(said.Bytes(), []byte("no fuzz tests to fuzz")) {
		err = errors.New("go test finds no such target") // and says so without failing
	}
	if err == nil {
		return nil
	}
	f := &failure{target: t, err: err, replay: "go " + quoted(args)}
	if entry := failingEntry(said.String()); entry != "" {
		f.replay = "go " + quoted([]string{"test", "-run", "^" + t.name + "$/^" + regexp.QuoteMeta(entry) + "$", t.pkg()})
		f.input = entry
		if file := filepath.Join(t.dir, "testdata", "fuzz", t.name, entry); exists(file) {
			f.input = file
		}
	}
	return f
}

// failure is what is known of a target that failed.
type failure struct {
	target target
	err    error
	// file, or name of a seed that the target itself adds; empty: there is none, as when it does
	// not compile
	input  string
	replay string // command that fails in the same way
}

func (f failure) String() string {
	text := fmt.Sprintf("FAILED %s: %v", f.target, f.err)
	if f.input != "" {
		text += "\n  input:  " + f.input
	}
	return text + "\n  replay: " + f.replay
}

// entryPatterns are the ways in which go test names the input that failed: one that it has found,
// and one that was there before.
var entryPatterns = []*regexp.Regexp{
	regexp.MustCompile(`Failing input written to testdata[/\\]fuzz[/\\][^/\\\s]+[/\\](\S+)`),
	regexp.MustCompile(`failure while testing seed corpus entry: [^/\s]+/(\S+)`),
}

// failingEntry returns the name of the input in what go test has said; empty: it names none.
func failingEntry(said string) string {
	for _, pattern := range entryPatterns {
		if match := pattern.FindStringSubmatch(said); match != nil {
			return match[1]
		}
	}
	return ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// quoted writes arguments as they are typed into a shell.
func quoted(args []string) string {
	var words []string
	for _, arg := range args {
		if strings.ContainsAny(arg, "^$#\\") {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
