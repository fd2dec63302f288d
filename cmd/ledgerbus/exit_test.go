package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/client"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/server"
	"github.com/ledgerbus/ledgerbus/settings"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything else"), 1},
		{&client.Error{Op: "send", Text: "refused"}, 1},
		{usageError{errors.New("x")}, 2},
		{settings.Problems{{Text: "x"}}, 2},
		{&server.ListenError{Address: "a", Err: syscall.EADDRINUSE}, 2},
		{log.ErrInUse, 3},
		{&log.CorruptError{Reason: "x"}, 4},
		{&log.CorruptError{Reason: "x", Cause: &fs.PathError{Err: syscall.EIO}}, 4},
		{errDamaged, 4},
		{&fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EROFS}, 5},
		{log.ErrPoisoned, 5},
		{engine.ErrUnknown, 5},
		{fmt.Errorf("%w: %w", errInternal, errors.New("x")), 6},
		{log.ErrFormat, 7},
	} {
		for _, err := range []error{c.err, fmt.Errorf("engine: %w", c.err), errors.Join(c.err, nil)} {
			if c.err == nil {
				err = nil
			}
			if got := exitCode(err); got != c.want {
				t.Errorf("%v: exit code %d, want %d", err, got, c.want)
			}
		}
	}
}

// damage changes one byte in the middle of every file of a folder.
func damage(t *testing.T, folder string) {
	t.Helper()
	changed := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			return err
		}
		data[len(data)/2] ^= 0x55
		changed++
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || changed == 0 {
		t.Fatalf("%d files changed, %v", changed, err)
	}
}

func TestDamageIsExitCode4(t *testing.T) {
	data := t.TempDir()
	s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {data}, "listen": {"127.0.0.1:0"}, "queue": {"orders"}}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dump", "verify"} {
		if r := execute(t, "", "", "log", name, data); r.code != 3 {
			t.Errorf("%s beside a broker: %+v", name, r)
		}
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "", "", "log", "verify", data); r.code != 0 || r.errOut != "" {
		t.Errorf("verify: %+v", r)
	}
	if r := execute(t, "", "", "log", "dump", data, "-o", "json"); r.code != 0 || !strings.Contains(r.out, "EntityCreated") {
		t.Errorf("dump: %+v", r)
	}
	damage(t, filepath.Join(data, "partitions", "00", "wal"))
	if r := execute(t, "", "", "serve", "--data", data, "--listen", "127.0.0.1:0"); r.code != 4 || r.out != "" || !strings.Contains(r.errOut, "\nledgerbus: log: partition 0: ") {
		t.Errorf("serve: %+v", r)
	}
	if r := execute(t, "", "", "log", "verify", data); r.code != 4 || !strings.Contains(r.out, "partitions/00/wal") || r.errOut != "ledgerbus: the log is damaged\n" {
		t.Errorf("verify: %+v", r)
	}
	if r := execute(t, "", "", "log", "dump", data); r.code != 4 {
		t.Errorf("dump: %+v", r)
	}
	if r := execute(t, "", "", "log", "dump", data+"/none"); r.code != 2 {
		t.Errorf("dump of nothing: %+v", r)
	}
}

func TestServeCannotMakeItsDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "", "", "serve", "--data", filepath.Join(file, "data"), "--listen", "127.0.0.1:0"); r.code != 5 || r.out != "" {
		t.Errorf("%+v", r)
	}
}
