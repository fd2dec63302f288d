package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The columns of a report.
const (
	diskSide   = "disk"
	floorSide  = "floor"
	keptSide   = "durable floor"
	brokerSide = "broker"
)

// Names of rows without numbers.
const (
	receiveRate     = "receive and complete, messages/s"
	bothSendRate    = "both at once, sends/s"
	bothReceiveRate = "both at once, receives/s"
	memoryResident  = "bytes of resident memory per waiting message"
	memoryHeap      = "bytes of live heap per waiting message"
	restartWith     = "restart after kill -9 with checkpoint, s"
	restartWithout  = "restart after kill -9 without checkpoint, s"
)

func sendRate(n int) string { return fmt.Sprintf("durable sends/s, %d in flight", n) }
func sendP50(n int) string  { return fmt.Sprintf("send p50, %d in flight, µs", n) }
func sendP99(n int) string  { return fmt.Sprintf("send p99, %d in flight, µs", n) }
func latencyOf(run, what, quantile string) string {
	return fmt.Sprintf("%s, %s %s, µs", run, what, quantile)
}
func cpuOf(what string) string       { return "server CPU s per million, " + what }
func clientCPUOf(what string) string { return "client CPU s per million, " + what }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// A Report contains the figures of a suite.
type Report struct {
	Machine Machine `json:"machine"`
	Command string  `json:"command"`
	Rounds  int     `json:"rounds"`
	Rows    []*Row  `json:"rows"` // in the order of their first measurement
}

// A Machine describes the hardware and software that the figures depend on.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Go         string `json:"go"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"fileSystem"`
	Time       string `json:"time"`
}

// A Row is one kind of figure, measured at several servers.
type Row struct {
	Name   string               `json:"name"`
	Values map[string][]float64 `json:"values"` // by column, one value per round
}

func newReport(o SuiteOptions) *Report {
	return &Report{
		Machine: Machine{
			CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version(), Kernel: kernel(), FileSystem: fileSystem(o.Dir),
			Time: time.Now().UTC().Format("2006-01-02 15:04 MST"),
		},
		Rounds: o.Rounds,
	}
}

func (r *Report) add(column, row string, v float64) {
	i := slices.IndexFunc(r.Rows, func(x *Row) bool { return x.Name == row })
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, &Row{Name: row, Values: map[string][]float64{}})
	}
	r.Rows[i].Values[column] = append(r.Rows[i].Values[column], v)
}

// Median returns the median of a row's figures for a column; ok is false if there are none.
func (r *Row) Median(column string) (v float64, ok bool) {
	values := slices.Sorted(slices.Values(r.Values[column]))
	if len(values) == 0 {
		return 0, false
	}
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}

// ratio returns the broker's figure divided by another one's.
func (r *Row) ratio(over string) string {
	b, ok1 := r.Median(brokerSide)
	o, ok2 := r.Median(over)
	if !ok1 || !ok2 || o == 0 {
		return ""
	}
	return strconv.FormatFloat(b/o, 'f', 2, 64)
}

// cell returns the median with the smallest and the largest figure.
func (r *Row) cell(column string) string {
	m, ok := r.Median(column)
	if !ok {
		return ""
	}
	values := r.Values[column]
	if len(values) == 1 {
		return figure(m)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(m), figure(slices.Min(values)), figure(slices.Max(values)))
}

// figure formats a number with at least three digits, and commas between thousands.
func figure(v float64) string {
	switch {
	case v < 10 && v > -10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100 && v > -100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// Markdown prints the table of docs/performance.md.
func (r *Report) Markdown(w io.Writer) error {
	m := r.Machine
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores; %s; %s; %s; %s\n\n", m.CPU, m.Cores, m.Kernel, m.FileSystem, m.Go, m.Time)
	fmt.Fprintf(&b, "`%s`: medians of %d rounds (smallest–largest)\n\n", r.Command, r.Rounds)
	b.WriteString("| | disk | floor | durable floor | broker | broker/floor | broker/durable floor | broker/disk |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", row.Name, row.cell(diskSide), row.cell(floorSide), row.cell(keptSide),
			row.cell(brokerSide), row.ratio(floorSide), row.ratio(keptSide), row.ratio(diskSide))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON prints all measurements.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// cpuModel returns the processor's name as reported by Linux.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // unknown on other systems
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // unknown on other systems
	return strings.TrimSpace(runtime.GOOS + " " + string(release))
}

// fileSystem returns the type of a directory's file system: that of the longest mount point that
// contains it.
func fileSystem(dir string) string {
	mounts, _ := os.ReadFile("/proc/self/mounts") // unknown on other systems
	best, name := "", ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) >= 3 && (dir == f[1] || strings.HasPrefix(dir, strings.TrimSuffix(f[1], "/")+"/")) && len(f[1]) >= len(best) {
			best, name = f[1], f[2]
		}
	}
	return cmp.Or(name, "unknown file system")
}
