// Package ci tests .ci/run with commands that only note that they were called.
package ci

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// noting is a command that notes its call, and the value of CI that it sees. As sudo, it calls what
// it is given.
const noting = `#!/bin/sh
echo "CI=$CI ${0##*/} $*" >>"$CALLS"
[ "${0##*/}" = sudo ] && exec "$@"
exit 0
`

// machine is one on which .ci/run runs, by a user who is not root.
type machine struct {
	t        *testing.T
	dir, bin string
}

// newMachine is one that has Go, make, curl and what else is named.

func newMachine(t *testing.T, installed ...string) machine {
	t.Helper()
	m := machine{t, t.TempDir(), t.TempDir()}
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Mkdir(filepath.Join(m.dir, ".ci"), 0o700), os.WriteFile(filepath.Join(m.dir, ".ci/run"), script, 0o700))
	for _, name := range append([]string{"go", "make", "curl", "sudo", "apt-get"}, installed...) {
		err = errors.Join(err, os.WriteFile(filepath.Join(m.bin, name), []byte(noting), 0o700))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(m.bin, "id"), []byte("#!/bin/sh\necho 1000\n"), 0o700))
	for _, name := range []string{"bash", "dirname"} { // of the system nothing else is seen
		real, e := exec.LookPath(name)
		err = errors.Join(err, e, os.Symlink(real, filepath.Join(m.bin, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs the script and returns what it said, its exit code, and the calls of other commands.
func (m machine) run(stdin *os.File, env ...string) (said string, code int, calls []string) {
	m.t.Helper()
	noted := filepath.Join(m.t.TempDir(), "calls")
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(m.dir, ".ci/run"))
	cmd.Stdin = stdin // nil: /dev/null
	cmd.Env = append([]string{"PATH=" + m.bin, "CALLS=" + noted, "TMPDIR=" + m.t.TempDir()}, env...)
	out, _ := cmd.CombinedOutput()
	text, err := os.ReadFile(noted)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatalf("%v; want the file or that there is none", err)
	}
	return string(out), cmd.ProcessState.ExitCode(), strings.Split(strings.TrimSpace(string(text)), "\n")
}

// terminal is a new one, at which nobody types.
func terminal(t *testing.T) *os.File {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return theirs
}

// runtimes are the commands that the SDKs and the race detector need.
var runtimes = []string{"cc", "node", "npm", "python3", "java", "mvn"}

// checked are calls without which nothing was checked.
var checked = []string{"CI=true make lint", "CI=true make test", "CI=true go run ./test/all --scope change", "CI=true go run ./test/sdk/run --check docs/compatibility.md"}

func TestMachineInstallsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stdin *os.File
		env   []string
	}{"nothing set": {}, "CI=true": {env: []string{"CI=true"}}, "CI=true at a terminal": {terminal(t), []string{"CI=true"}}} {
		said, code, calls := newMachine(t).run(c.stdin, c.env...)
		ci := "CI=" + strings.TrimPrefix(strings.Join(c.env, ""), "CI=") + " " // as it was given
		for _, packages := range []string{"gcc libc6-dev python3-dev", "nodejs npm", "python3 python3-venv", "python3-zstandard", "default-jdk-headless maven"} {
			if !slices.Contains(calls, ci+"sudo apt-get install -y -qq "+packages) {
				t.Errorf("%s: %s is not installed: %q", name, packages, calls)
			}
		}
		for _, call := range checked {
			if code != 0 || !slices.Contains(calls, call) {
				t.Errorf("%s: exit code %d, no %s in %q\n%s", name, code, call, calls, said)
			}
		}
	}
}

func TestPersonIsToldWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stdin *os.File
		env   []string
	}{"at a terminal": {stdin: terminal(t)}, "CI=false": {env: []string{"CI=false"}}} {
		said, code, calls := newMachine(t, "cc", "python3").run(c.stdin, c.env...)
		if code != 1 || !strings.HasSuffix(said, ": nodejs npm default-jdk-headless maven\n") {
			t.Errorf("%s: exit code %d\n%s", name, code, said)
		}
		for _, call := range calls {
			if strings.Contains(call, "apt-get") || strings.Contains(call, " make ") {
				t.Errorf(`%s: %s; want !strings.Contains(call, "apt-get") && !strings.Contains(call, " make ")`, name, call)
			}
		}
	}
}

func TestPersonWithEverythingChecks(t *testing.T) {
	t.Parallel()
	said, code, calls := newMachine(t, runtimes...).run(terminal(t))
	for _, call := range checked {
		if code != 0 || !slices.Contains(calls, call) {
			t.Errorf("exit code %d, no %s in %q\n%s", code, call, calls, said)
		}
	}
}
