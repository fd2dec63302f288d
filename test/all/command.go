package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// command is a command, run from the top of the repository.
type command struct {
	dir  string   // empty: the top
	env  []string // on top of the program's own
	args []string
}

// String writes the command as it is typed into a shell.
func (c command) String() string {
	text := strings.Join(append(c.env[:len(c.env):len(c.env)], c.args...), " ")
	if c.dir != "" {
		return "(cd " + c.dir + " && " + text + ")"
	}
	return text
}

// grace is how long a command that was told to end may take for that.
const grace = 10 * time.Second

func (c command) run(ctx context.Context, w io.Writer) error {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	return cmd.Run()
}

// output returns what a command prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(text), nil
}
