package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBackupOfTheBroker makes, verifies and opens a copy. The log records who made it and why.
func TestBackupOfTheBroker(t *testing.T) {
	s := steps{t, startBroker(t)}
	s.run(0, "…", "send", "orders", "--body", "kept")
	parent := t.TempDir()
	dir := filepath.Join(parent, "copy")
	said := s.run(0, "…", "backup", "--into", dir, "--reason", "before the upgrade")
	if !regexp.MustCompile(`^\S+/copy is a copy of localhost:\d+ as of 20\S+Z, verified: \d+ bytes, \d+ frames, \d+ records$`).MatchString(said) {
		t.Errorf("it says %q", said)
	}
	if got := s.run(0, "…", "backup", "--into", filepath.Join(parent, "second"), "-o", "json"); !regexp.MustCompile(`^\{"id":"[0-9a-f-]{36}","time":"20\S+Z","bytes":\d+,"frames":\d+,"records":\d+\}$`).MatchString(got) {
		t.Errorf("it says %q", got)
	}
	if got := s.run(2, "…", "backup", "--into", dir); got != "ledgerbus: "+dir+" is not empty" {
		t.Errorf("over a copy: %q", got)
	}
	s.run(2, "ledgerbus: missing --into; usage: ledgerbus backup --into DIR", "backup")
	if err := os.Mkdir(filepath.Join(parent, "third.partial"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := s.run(2, "…", "backup", "--into", filepath.Join(parent, "third")); !strings.Contains(got, "third.partial is left over from an earlier attempt and is not empty; remove it") {
		t.Errorf("beside the rest of one: %q", got)
	}
	if got := s.run(5, "…", "backup", "--into", filepath.Join(parent, "no", "copy")); !strings.Contains(got, "no such file") {
		t.Errorf("into nowhere: %q", got)
	}
	if r := execute(t, "", "", "log", "dump", "--partition", "0", dir); r.code != 0 || r.errOut != "" || !strings.Contains(r.out, " BackupMarked  ID=") ||
		!strings.Contains(r.out, `ReasonGiven  Reason="before the upgrade"`) || !strings.Contains(r.out, "By=\"origin 1: RootManageSharedAccessKey 127.0.0.1:") {
		t.Errorf("%+v", r)
	}
	copied := steps{t, startBroker(t, "data", dir)}
	if got := copied.run(0, "…", "receive", "orders"); !strings.Contains(got, "kept") {
		t.Errorf("received from the copy: %q", got)
	}
	nobody := steps{t, "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"}
	if got := nobody.run(1, "…", "backup", "--into", filepath.Join(parent, "fourth")); !strings.Contains(got, "check that the broker is running") {
		t.Errorf("of nobody: %q", got)
	}
	for _, name := range []string{"fourth", "fourth.partial"} {
		if _, err := os.Stat(filepath.Join(parent, name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}
