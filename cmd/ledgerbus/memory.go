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

	"github.com/ledgerbus/ledgerbus/internal/quantity"
)

// memoryPercent is the share of the available memory that the broker uses before the garbage
// collector works harder. The rest is for memory that the collector does not see, and for the page
// cache.
const memoryPercent = 90

// boundMemory sets the runtime's soft memory limit (reliability.md F22): the limit of the settings,
// GOMEMLIMIT in the environment, or memoryPercent of the available memory. It returns the limit,
// which the broker's memory account follows; 0 means none. tell logs the limit and the allowed
// garbage growth, once a broker runs under it.
func boundMemory(setting int64) (bytes int64, tell func()) {
	said := func(limit int64, of string, more ...any) (int64, func()) {
		return limit, func() {
			slog.Info("memory limit", append([]any{"limit", quantity.FormatSize(limit), "of", of, "gogc", growthText(garbageGrowth())}, more...)...)
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

// garbageGrowth returns GOGC: how far garbage may grow before it is collected, in percent of the
// live heap. The default is 100. A negative value means off: garbage is collected only at the
// memory limit.
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

// groupMemory returns the memory limit of the process's control group in bytes, version 1 or 2, or
// the lower limit of a group above it; 0 means none.
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
		// Inside a container the path may be the host's, which does not exist there. The mount is
		// then the container's group.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			limit = lower(limit, numberIn(root, path.Join(mount, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// lower returns the lower of two limits; 0 means no limit.
func lower(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// noLimit is the smallest value of a version 1 limit that means that there is none.
const noLimit = 1 << 60

// numberIn returns the number in a file; 0: there is no file or no limit.
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
