package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Reliability.md S3: init writes unique keys to a file that no other user can read, and a broker
// starts with it.
func TestInit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bus.yaml")
	r := execute(t, "", "", "init", "--config", file)
	if r.code != 0 || !strings.Contains(r.out, "ledgerbus serve --config "+file) {
		t.Fatalf(`%+v; want r.code == 0 && strings.Contains(r.out, "ledgerbus serve --config "+file)`, r)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v; want info.Mode().Perm() == 0o600", info.Mode(), err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`-key: (\S+)`).FindAllStringSubmatch(string(before), -1) {
		if strings.Contains(r.out+r.errOut, key[1]) {
			t.Error("a key is printed")
		}
	}
	if r := execute(t, "", "", "init", "--config", file); r.code != 2 || strings.TrimSpace(r.errOut) != "ledgerbus: "+file+" already exists: remove it, or name another file with --config" {
		t.Errorf(`%+v; want r.code == 2 && strings.TrimSpace(r.errOut) == "ledgerbus: " + file + " already exists: remove it, or name another file with --config"`, r)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Error("the keys there were are gone")
	}
	if r := execute(t, "", "", "init", "--config", filepath.Join(file, "x")); r.code != 5 {
		t.Errorf("below a file: %+v", r)
	}
	serving(t, file)
}

// serving starts a broker for production from a config file, and returns its process and its
// address.
func serving(t *testing.T, file string) (process *os.Process, address string, log *bufio.Scanner) {
	t.Helper()
	until := command(t, "", "serve", "--config", file, "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--queue", "orders", "--log-level", "info")
	// not killed when the test ends: Cleanup asks it to stop
	cmd := exec.Command(until.Path, until.Args[1:]...)
	cmd.Env = until.Env
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_, _ = io.Copy(io.Discard, stderr)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "queues") {
		if _, found, ok := strings.Cut(lines.Text(), "listening on"); ok {
			address = strings.TrimSpace(found)
		}
	}
	if address == "" {
		t.Fatal("it does not listen")
	}
	return cmd.Process, address, bufio.NewScanner(stderr)
}

// Management-api.md 5.2: SIGHUP loads the keys of the config file; a file with a mistake changes
// nothing.
func TestKeysReplacedBySignal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bus.yaml")
	put := func(rules string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("mode: production\naccess-rules: "+rules+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(`[{name: app, rights: [Manage], primary-key: first}]`)
	process, address, log := serving(t, file)
	send := func(key string) int {
		return execute(t, fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=app;SharedAccessKey=%s;UseDevelopmentEmulator=true", address, key), "", "send", "orders", "--body", "x").code
	}
	reload := func(want string) {
		t.Helper()
		if err := process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for log.Scan() {
			if strings.Contains(log.Text(), want) {
				return
			}
		}
		t.Fatalf("no %q in the log", want)
	}
	if send("first") != 0 || send("second") != 1 {
		t.Fatal("before")
	}
	put(`[{name: app, rights: [Fly], primary-key: second}]`)
	reload("settings not reloaded")
	if send("first") != 0 {
		t.Error("a mistake changed something")
	}
	put(`[{name: app, rights: [Manage], primary-key: second}]`)
	reload("access rules and certificate reloaded")
	if send("first") != 1 || send("second") != 0 {
		t.Error("after")
	}
}

func TestExportAuthority(t *testing.T) {
	data := t.TempDir()
	if r := execute(t, "", "", "tls", "export-ca", "--data", data); r.code != 2 || !strings.Contains(r.errOut, data+" contains no authority") {
		t.Errorf(`%+v; want r.code == 2 && strings.Contains(r.errOut, data+" contains no authority")`, r)
	}
	startBroker(t, "data", data)
	want, err := os.ReadFile(filepath.Join(data, "tls", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "", "", "tls", "export-ca", "--data", data); r.code != 0 || r.out != string(want) {
		t.Errorf("%+v; want r.code == 0 && r.out == string(want)", r)
	}
	if r := execute(t, "", "", "tls", "export-ca", "x"); r.code != 2 {
		t.Errorf("%+v; want r.code == 2", r)
	}
}
