package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/tools/bench/floor"
)

// asCommand makes the test binary run as the command.
const asCommand = "LEDGERBENCH_TEST_IS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// execute runs ledgerbench in a separate process without inherited settings.
func execute(t *testing.T, env []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append([]string{asCommand + "=1", "GOCOVERDIR=" + t.TempDir()}, env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestExitCodesAndMessages(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	nobody := "LEDGERBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
	for _, c := range []struct {
		args []string
		env  []string
		code int
		text string
	}{
		{[]string{"--help"}, nil, exitWell, ""},
		{[]string{"send", "--help"}, nil, exitWell, ""},
		{[]string{"help", "send"}, nil, exitWell, ""},
		{[]string{"sned"}, nil, exitUsage, `ledgerbench: unknown command "sned"; see ledgerbench --help`},
		{[]string{"send", "--colour"}, nil, exitUsage, "ledgerbench: flag provided but not defined: -colour; see ledgerbench send --help"},
		{[]string{"send", "orders", "--count", "1"}, nil, exitUsage, `ledgerbench: send takes no argument "orders"; see ledgerbench send --help`},
		{[]string{"send"}, nil, exitRefused, "ledgerbench: bench: missing broker; give --connection-string or --url"},
		{[]string{"send"}, []string{nobody}, exitRefused, "ledgerbench: "},
		{[]string{"fsync", "--dir", none}, nil, exitIO, "ledgerbench: open " + none},
		{[]string{"suite", "--program", none, "--dir", t.TempDir()}, nil, exitIO, "ledgerbench: fork/exec " + none},
		{[]string{"suite"}, nil, exitRefused, "ledgerbench: bench: found no program ledgerbus in "},
	} {
		code, out, errOut := execute(t, c.env, c.args...)
		if code != c.code || !strings.HasPrefix(errOut, c.text) || (c.text == "") != (errOut == "") || (code == exitWell) != strings.Contains(out, "USAGE") {
			t.Errorf("%q: exit code %d, %q; want %d, %q", c.args, code, errOut, c.code, c.text)
		}
	}
	if code, out, _ := execute(t, nil, "version"); code != exitWell || !strings.HasPrefix(out, "ledgerbench ") {
		t.Errorf("version: exit code %d, %q", code, out)
	}
}

// The environment selects the broker, as for ledgerbus.
func TestSend(t *testing.T) {
	t.Parallel()
	s, err := floor.Listen("127.0.0.1:0", floor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	broker := "LEDGERBUS_CONNECTION_STRING=Endpoint=sb://" + s.Addr() + ";SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
	code, out, errOut := execute(t, []string{broker}, "send", "--count", "100", "-o", "json")
	if code != exitWell || !strings.Contains(out, `"messages":100`) {
		t.Errorf("exit code %d, %s%s", code, out, errOut)
	}
}
