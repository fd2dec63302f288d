package bench

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/tools/bench/floor"
)

// The suite starts this program again as `… floor`; then the test binary runs as the command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		app := &cli.App{Name: "ledgerbench", Commands: Commands()}
		if err := app.Run(os.Args); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The floor server replaces a running broker.
func TestSuiteMeasuresARunningBroker(t *testing.T) {
	target := startFloor(t)
	report, err := Suite(t.Context(), SuiteOptions{
		Rounds: 2, Duration: 50 * time.Millisecond, DiskDuration: time.Millisecond, InFlight: []int{1, 16}, Dir: t.TempDir(),
		Running: &target, ServerPID: os.Getpid(), Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Markdown(&out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{sendRate(1), sendP50(16), receiveRate, bothSendRate, cpuOf("receive and complete")} {
		if !strings.Contains(out.String(), "| "+row+" |") {
			t.Errorf("no row %q in\n%s", row, out.String())
		}
	}
	for _, row := range report.Rows {
		for column, values := range row.Values {
			if len(values) != 2 {
				t.Errorf("%s, %s: %d figures in 2 rounds", row.Name, column, len(values))
			}
		}
	}
}

func TestRowArithmetic(t *testing.T) {
	r := &Report{}
	for _, v := range []float64{30, 10, 20} {
		r.add(brokerSide, "x", v)
	}
	r.add(floorSide, "x", 40)
	row := r.Rows[0]
	if got := row.cell(brokerSide); got != "20.0 (10.0–30.0)" {
		t.Errorf(`%+v, want "20.0 (10.0–30.0)"`, got)
	}
	if row.ratio(floorSide) != "0.50" || row.ratio(diskSide) != "" || row.cell(diskSide) != "" {
		t.Errorf(`%+v %+v %+v; want row.ratio(floorSide) == "0.50" && row.ratio(diskSide) == "" && row.cell(diskSide) == ""`, row.ratio(floorSide), row.ratio(diskSide), row.cell(diskSide))
	}
	for v, want := range map[float64]string{0: "0.00", 9.994: "9.99", 12.34: "12.3", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := figure(v); got != want {
			t.Errorf("%v: %s instead of %s", v, got, want)
		}
	}
}

func TestChildOutputFindsTheLiveHeap(t *testing.T) {
	var o childOutput
	for _, part := range []string{"bad thing\ngc 3 @0.1s 1%: 0.0", "1+0.4 ms clock, 0.1 ms cpu, 40->41->27 MB, 55 MB goal, 0 MB stacks\n", "gc 4"} {
		if _, err := o.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if o.liveHeap() != 27<<20 || o.tail() != "\nbad thing\n" {
		t.Errorf(`%d, %q; want o.liveHeap() == 27<<20 && o.tail() == "\nbad thing\n"`, o.liveHeap(), o.tail())
	}
}

func TestAChildThatEndsIsNoticed(t *testing.T) {
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0], "send"), output: &childOutput{}, target: Target{URL: "amqp://127.0.0.1:1", Queue: "q"}}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	if err := c.ready(t.Context()); err == nil {
		t.Error("ready")
	}
}

func TestProcessFigures(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	if cpu, err := processCPU(os.Getpid()); err != nil || cpu < 0 {
		t.Errorf("%v, %v; want cpu >= 0", cpu, err)
	}
	if n, err := residentAnonymous(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("%d, %v; want n >= 1<<20", n, err)
	}
	if _, err := processCPU(-1); err == nil {
		t.Error("a process that does not exist has CPU time")
	}
}

// Runs the loads of the stage of deliveries with a floor server that keeps messages: every row has
// a figure for each way of settling.
func TestDeliveriesAtAFloorThatKeeps(t *testing.T) {
	f, err := floor.Listen("127.0.0.1:0", floor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &suite{SuiteOptions: SuiteOptions{Size: 100, Duration: 400 * time.Millisecond, Log: t.Logf}, report: &Report{}}
	for _, l := range ladders {
		l.capacity = 200_000
		for _, unanswered := range []bool{false, true} {
			if err := s.deliver(t.Context(), 0, side{name: keptSide, target: Target{URL: f.URL(), Queue: "q"}}, l, unanswered); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(s.report.Rows) != 2*(4+4+1) {
		t.Errorf("%d rows", len(s.report.Rows))
	}
	for _, row := range s.report.Rows {
		if m, ok := row.Median(keptSide); !ok || m <= 0 && !strings.Contains(row.Name, "backlog") {
			t.Errorf(`%s: %v; want ok && (m > 0 || strings.Contains(row.Name, "backlog"))`, row.Name, m)
		}
	}
}
