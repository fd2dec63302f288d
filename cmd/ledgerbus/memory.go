package main

import (
	"bufio"
	"cmp"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// memoryPercent is how much of the memory there is the broker uses before the garbage collector
// works harder to use no more: the rest is for what the collector does not see, and for the page
// cache.
const memoryPercent = 90

// boundMemory gives the runtime a soft limit (reliability.md F22): that of the settings, that of
// GOMEMLIMIT in the environment, or memoryPercent of the memory there is. It returns the limit, 0
// for none, which the broker's account of memory follows, and a function that logs the limit, and
// how far garbage may grow below it, for when a broker runs under it.
func boundMemory(setting int64) (bytes int64, tell func()) {
	said := func(limit int64, of string, more ...any) (int64, func()) {
		return limit, func() {
			slog.Info("memory limit", append([]any{"bytes", limit, "of", of, "gogc", growthText(garbageGrowth())}, more...)...)
		}
	}
	unlimited := func(log func(string, ...any), text string, more ...any) (int64, func()) {
		return 0, func() {
			growth := garbageGrowth()
			if log(text, append(more, "gogc", growthText(growth))...); growth < 0 {
				slog.Warn("garbage collection disabled: GOGC is off and there is no memory limit")
			}
		}
	}
	if setting > 0 {
		debug.SetMemoryLimit(setting)
		return said(setting, "settings")
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		limit := debug.SetMemoryLimit(-1)
		if limit == math.MaxInt64 { // "off"
			return unlimited(slog.Info, "no memory limit", "of", "GOMEMLIMIT")
		}
		return said(limit, "GOMEMLIMIT")
	}
	limit, of := groupMemory(os.DirFS("/")), "control group"
	if machine := machineMemory(); limit == 0 || machine != 0 && machine < limit {
		limit, of = machine, "machine"
	}
	if limit == 0 {
		return unlimited(slog.Warn, "no memory limit: the amount of memory is unknown; set GOMEMLIMIT")
	}
	limit = limit / 100 * memoryPercent
	bytes = int64(min(limit, math.MaxInt64))
	debug.SetMemoryLimit(bytes)
	return said(bytes, of, "percent", memoryPercent)
}

// garbageGrowth is by how much of what is in use garbage may grow before it is collected, in
// percent: GOGC, or 100. Negative: it is off, and garbage is collected at the memory limit alone.
func garbageGrowth() int64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()) // off is -1
}

func growthText(percent int64) string {
	if percent < 0 {
		return "off"
	}
	return strconv.FormatInt(percent, 10)
}

// groupMemory is the memory limit in bytes of the process's control group, of version 1 or 2, or of
// a group above it if that is lower; 0: there is none.
func groupMemory(root fs.FS) (limit uint64) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(strings.NewReader(string(groups)))
	for lines.Scan() { // hierarchy:controllers:path
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, file := "", ""
		switch {
		case fields[0] == "0" && fields[1] == "":
			mount, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+fields[1]+",", ",memory,"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// Inside a container the path may be that of the host, which is not there: the mount is the
		// container's group then.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			limit = lower(limit, numberIn(root, path.Join(mount, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// lower is the lower one of two limits, of which 0 is none.
func lower(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// noLimit is the number from which on a limit of version 1 means that there is none.
const noLimit = 1 << 60

// numberIn is the number in a file; 0: there is no file, or what it says is no limit.
func numberIn(root fs.FS, name string) uint64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n >= noLimit { // "max"
		return 0
	}
	return n
}
