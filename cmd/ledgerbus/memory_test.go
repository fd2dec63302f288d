package main

import (
	"bufio"
	"bytes"
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestGroupMemory(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"none":                 {nil, 0},
		"no file":              {map[string]string{"proc/self/cgroup": "0::/\n"}, 0},
		"version 2":            {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"version 2, unlimited": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"version 2, nested": {map[string]string{"proc/self/cgroup": "0::/system.slice/b.service\n",
			"sys/fs/cgroup/system.slice/memory.max": "1000000\n", "sys/fs/cgroup/system.slice/b.service/memory.max": "2000000\n"}, 1_000_000},
		"version 2, the path is the host's": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod1/x\n", "sys/fs/cgroup/memory.max": "3000000\n"}, 3_000_000},
		"version 1": {map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/x\n5:memory:/docker/1\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "268435456\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 256 << 20},
		"version 1, unlimited": {map[string]string{"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"both":                 {map[string]string{"proc/self/cgroup": "5:hugetlb,memory:/\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4000000\n"}, 4_000_000},
		"damaged":              {map[string]string{"proc/self/cgroup": "nonsense\n::\n0::/../..\n", "sys/fs/cgroup/memory.max": "-1\n"}, 0},
	} {
		files := fstest.MapFS{}
		for name, text := range test.files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupMemory(files); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// The garbage growth that the process was started with applies, and is in the log output.
func TestGarbageGrowth(t *testing.T) {
	for _, c := range []struct {
		gogc, limit string
		said        []string
	}{
		{"", "256MiB", []string{"limit=256MiB", "gogc=100"}},
		{"10", "256MiB", []string{"gogc=10"}},
		{"300", "256MiB", []string{"gogc=300"}},
		{"off", "256MiB", []string{"gogc=off"}},
		{"200", "off", []string{`"no memory limit"`, "gogc=200"}},
		{"off", "off", []string{`"no memory limit"`, "gogc=off", "garbage collection disabled"}},
	} {
		cmd := command(t, "", "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
		cmd.Env = append(cmd.Env, "GOGC="+c.gogc, "GOMEMLIMIT="+c.limit)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != ready; {
		}
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("GOGC=%s: %v", c.gogc, err)
		}
		for _, want := range c.said {
			if !strings.Contains(said.String(), want) {
				t.Errorf("GOGC=%s GOMEMLIMIT=%s: it does not say %s:\n%s", c.gogc, c.limit, want, &said)
			}
		}
		if never := "collection disabled"; strings.Contains(said.String(), never) != strings.Contains(c.said[len(c.said)-1], never) {
			t.Errorf("GOGC=%s GOMEMLIMIT=%s:\n%s", c.gogc, c.limit, &said)
		}
	}
}

// The soft limit is set and logged, unless the environment has set it.
func TestBoundMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	var said bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	defer slog.SetDefault(old)
	t.Setenv("GOMEMLIMIT", "123MiB")
	debug.SetMemoryLimit(123 << 20)
	limit, tell := boundMemory(0)
	if tell(); limit != 123<<20 || debug.SetMemoryLimit(-1) != 123<<20 || !strings.Contains(said.String(), "GOMEMLIMIT") {
		t.Errorf(`%d, %s; want limit == 123<<20 && debug.SetMemoryLimit(-1) == 123<<20 && strings.Contains(said.String(), "GOMEMLIMIT")`, debug.SetMemoryLimit(-1), &said)
	}
	t.Setenv("GOMEMLIMIT", "")
	said.Reset()
	if machineMemory() == 0 {
		t.Skip("the machine does not say how much memory it has")
	}
	limit, tell = boundMemory(0)
	tell()
	if limit != debug.SetMemoryLimit(-1) || limit == math.MaxInt64 || limit == 123<<20 || uint64(limit) > machineMemory() || !strings.Contains(said.String(), "memory limit") {
		t.Errorf("%d of %d, %s", limit, machineMemory(), &said)
	}
	said.Reset()
	limit, tell = boundMemory(100 << 20)
	if tell(); limit != 100<<20 || debug.SetMemoryLimit(-1) != limit || !strings.Contains(said.String(), "limit=100MiB of=settings") {
		t.Errorf("%d by the settings, %s", limit, &said)
	}
}
