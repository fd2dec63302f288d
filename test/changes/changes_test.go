package changes

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// repository makes one with a commit for each list of files, and goes there.
func repository(t *testing.T, commits ...[]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	command(t, "init", "-q", "-b", "main")
	for _, files := range commits {
		write(t, files...)
		command(t, "add", ".")
		command(t, "-c", "user.name=a", "-c", "user.email=a@example", "commit", "-q", "-m", "change")
	}
}

func write(t *testing.T, files ...string) {
	t.Helper()
	for _, name := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// check compares what has changed since a commit with what should have.
func check(t *testing.T, since string, want map[string]bool) {
	t.Helper()
	files, err := Since(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range want {
		if got := files.Below("nowhere/", prefix); got != want {
			t.Errorf("since %q: %s is changed: %t, want %t", since, prefix, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	repository(t, []string{"log/a.go"}, []string{"index/b.go"}, []string{"engine/host/c.go"})
	write(t, "tools/new.go")
	check(t, "", map[string]bool{"log/": false, "index/": false, "engine/": true, "engine/host/d": false, "tools/": true})
	check(t, "HEAD~2", map[string]bool{"log/": false, "index/": true, "engine/": true})
	command(t, "update-ref", "refs/remotes/origin/main", "HEAD~2")
	check(t, "", map[string]bool{"log/": false, "index/": true, "engine/": true})
	command(t, "update-ref", "refs/remotes/origin/main", "HEAD")
	check(t, "", map[string]bool{"index/": false, "engine/": true})
}

// A file that goes, and one that gets another name, have changed.
func TestSinceOfFilesThatGo(t *testing.T) {
	repository(t, []string{"log/a.go", "index/b.go"})
	command(t, "mv", "index/b.go", "b.go")
	command(t, "rm", "-q", "log/a.go")
	check(t, "HEAD", map[string]bool{"log/": true, "index/": true, "b.go": true, "engine/": false})
}

// Where nobody knows what has changed, everything may have.
func TestSinceWithoutHistory(t *testing.T) {
	repository(t, []string{"log/a.go"})
	check(t, "", map[string]bool{"log/": true, "index/": true})
	check(t, "0123456789", map[string]bool{"index/": true})
	t.Chdir(t.TempDir())
	check(t, "", map[string]bool{"index/": true})
}
