package broker

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// captureLog returns the log output until the test ends. Tests that use it do not run in parallel.
func captureLog(t *testing.T) *bytes.Buffer {
	t.Helper()
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var b bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	return &b
}

// Reliability.md S32: a start removes other users' access to the data directory and its keys, and
// logs it. It does not fail because of that.
func TestOpenDataDirectoryIsNarrowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := load(t, dir, nil)
	if err := start(t, s).Close(); err != nil {
		t.Fatal(err)
	}
	keys := []string{filepath.Join(dir, "tls", "ca-with-key.pem"), filepath.Join(dir, "tls", "server-with-key.pem")}
	for _, c := range []struct {
		dir, key         fs.FileMode
		wantDir, wantKey fs.FileMode
		warnings         int
		text             string
	}{
		{0o700, 0o600, 0o700, 0o600, 0, ""},
		{0o777, 0o666, 0o700, 0o600, 3, "path=" + dir + " mode=0777"},
		{0o755, 0o600, 0o700, 0o600, 1, "path=" + dir + " mode=0755"}, // a container's volume
		{0o770 | fs.ModeSetgid, 0o640, 0o700 | fs.ModeSetgid, 0o600, 3, "path=" + keys[1] + " mode=0640"},
		{0o777 | fs.ModeSticky, 0o600, 0o777 | fs.ModeSticky, 0o600, 1, "use a separate directory for the broker"},
	} {
		for path, mode := range map[string]fs.FileMode{dir: c.dir, keys[0]: c.key, keys[1]: c.key} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		said := captureLog(t)
		if err := start(t, s).Close(); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]fs.FileMode{dir: c.wantDir | fs.ModeDir, keys[0]: c.wantKey, keys[1]: c.wantKey} {
			if info, err := os.Stat(path); err != nil || info.Mode() != want {
				t.Errorf("%s, %v: %s has %v, want %v, %v", c.dir, c.key, path, info.Mode(), want, err)
			}
		}
		if text := said.String(); strings.Count(text, "level=WARN") != c.warnings || !strings.Contains(text, c.text) {
			t.Errorf("%s, %v: not %d warnings with %q:\n%s", c.dir, c.key, c.warnings, c.text, text)
		}
	}
}

// Reliability.md S32: the directory of a new broker is private from the beginning.
func TestNewDataDirectoryIsPrivate(t *testing.T) {
	said := captureLog(t)
	dir := filepath.Join(t.TempDir(), "data")
	if err := start(t, load(t, dir, nil)).Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != 0o700|fs.ModeDir || strings.Contains(said.String(), "level=WARN") {
		t.Errorf("%v, %v\n%s; want info.Mode() == 0o700|fs.ModeDir && !strings.Contains(said.String(), \"level=WARN\")", info.Mode(), err, said)
	}
}
