package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal runs the command with a terminal as its standard output, and returns its output there
// and on standard error.
func onTerminal(t *testing.T, connection string, args ...string) (out, errOut string) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	defer screen.Close()
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, connection, args...)
	var printed, noted bytes.Buffer
	cmd.Stdout, cmd.Stderr = terminal, &noted
	done := make(chan struct{})
	go func() {
		// ends with an error when no process has the terminal open
		_, _ = io.Copy(&printed, screen)
		close(done)
	}()
	err = cmd.Run()
	terminal.Close()
	<-done
	if err != nil {
		t.Fatalf("%q: %v, %s", args, err, &noted)
	}
	return strings.ReplaceAll(printed.String(), "\r\n", "\n"), noted.String()
}

// On a terminal, events without a range stops after 200 events, whatever the source, and prints how
// to continue; the printed flags give the rest. With a range, or without a terminal, it prints all
// events.
func TestEventsOnATerminal(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	end := sync.OnceFunc(stop)
	defer end()
	if r := execute(t, broker, "", "send", "orders", "--body", "x", "--count", "250"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	all := execute(t, broker, "", "events", "orders", "--type", "sent")
	if n := strings.Count(all.out, "\n"); all.code != 0 || n < 250 {
		t.Fatalf("%d lines, exit code %d; want 250 at least", n, all.code)
	}
	for _, source := range [][]string{nil, {"--data", data}} {
		connection := broker
		if source != nil {
			connection = ""
			end() // so that all of the directory is there
		}
		ask := func(more ...string) (out, errOut string) {
			return onTerminal(t, connection, append(append([]string{"events", "orders", "--type", "sent"}, more...), source...)...)
		}
		out, note := ask()
		lines := strings.SplitAfter(all.out, "\n")
		if want := strings.Join(lines[:200], ""); out != want {
			t.Errorf("%q: %d lines, want the first 200 of all", source, strings.Count(out, "\n"))
		}
		more := regexp.MustCompile(`200 events are shown and more follow: add --since (\S+) for the rest`).FindStringSubmatch(note)
		if more == nil {
			t.Fatalf("%q: noted %q", source, note)
		}
		if rest, note := ask("--since", more[1]); !strings.Contains(rest, strings.Join(lines[200:250], "")) || strings.Contains(note, "there are more") {
			t.Errorf("%q: the rest has %d lines, noted %q", source, strings.Count(rest, "\n"), note)
		}
		if whole, _ := ask("--until", "now"); strings.Count(whole, "\n") < 250 {
			t.Errorf("%q: with a range %d lines", source, strings.Count(whole, "\n"))
		}
		if rows, note := ask("-o", "json"); strings.Count(rows, "\n") < 250 || strings.Contains(note, "there are more") {
			t.Errorf("%q: %d lines of JSON", source, strings.Count(rows, "\n"))
		}
	}
}
