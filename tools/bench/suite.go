package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/tools/bench/floor"
)

// SuiteOptions are the settings of a suite. Zero fields mean their defaults.
type SuiteOptions struct {
	// rounds of all measurements except memory and restarts; default 3. Figures are medians over
	// them
	Rounds       int
	Duration     time.Duration // of each measurement; default 5 s
	DiskDuration time.Duration // of each measurement of the disk; default 1 s
	Size         int           // bytes of a body; default 1,024
	InFlight     []int         // default 1, 64, 512
	Acceptors    int           // default 64
	// sends per second of the measurement of latency below saturation; default 5,000, negative: not
	// measured
	Rate float64
	// waiting messages for memory and restart; default 1,000,000, negative: not measured
	Waiting  int64
	Restarts int    // restarts of each kind; default 3
	Dir      string // on the disk to measure; default the temporary directory
	// the broker; default ledgerbus next to this program, else in the PATH
	Program string
	// a running broker, instead of one that the suite starts; then memory and restarts are not
	// measured
	Running   *Target
	ServerPID int  // its process id, or 0
	Plain     bool // see Target.Plain
	// stages to run, of Stages; default all. With Running only the first is possible
	Stages []string
	Log    func(format string, args ...any)
}

func (o SuiteOptions) withDefaults() (SuiteOptions, error) {
	o.Rounds = cmp.Or(o.Rounds, 3)
	o.Duration = cmp.Or(o.Duration, 5*time.Second)
	o.DiskDuration = cmp.Or(o.DiskDuration, time.Second)
	o.Size = cmp.Or(o.Size, 1024)
	if len(o.InFlight) == 0 {
		o.InFlight = []int{1, 64, 512}
	}
	o.Acceptors = cmp.Or(o.Acceptors, 512)
	o.Rate = cmp.Or(o.Rate, 5000)
	o.Waiting = cmp.Or(o.Waiting, 1_000_000)
	o.Restarts = cmp.Or(o.Restarts, 3)
	o.Dir = cmp.Or(o.Dir, os.TempDir())
	if len(o.Stages) == 0 {
		o.Stages = Stages()
	}
	for _, name := range o.Stages {
		if !slices.Contains(Stages(), name) {
			return o, fmt.Errorf("bench: unknown stage %q; the stages are %s", name, strings.Join(Stages(), ", "))
		}
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Program == "" && o.Running == nil {
		var err error
		if o.Program, err = findBroker(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// findBroker finds the broker to start: next to this program, as in bin and in a release, else in
// the PATH.
func findBroker() (string, error) {
	const name = "ledgerbus"
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if broker, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
		return broker, nil
	}
	broker, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("bench: found no program %s in %s or in the PATH; name the broker with --program", name, filepath.Dir(self))
	}
	return broker, nil
}

// A suite is one suite in progress.
type suite struct {
	SuiteOptions
	report *Report
}

// A side is a server that is measured.
type side struct {
	name   string
	target Target
	pid    int
	// the server keeps sent messages for receivers; false for the floor server, which stores
	// nothing and never runs out of messages
	stored bool
}

// stages are the parts of a suite in order.
var stages = []struct {
	name    string
	measure func(*suite, context.Context) error
	own     bool // starts separate brokers
}{
	{"queue", (*suite).rounds, false},
	{"deliveries", (*suite).deliveries, true},
	{"waiting", (*suite).waiting, true},
	{"publish", (*suite).publish, true},
	{"correlations", (*suite).correlate, true},
	{"entities", (*suite).many, true},
	{"moves", (*suite).moves, true},
	{"transactions", (*suite).transactions, true},
}

// Stages returns the names of the measurements in order: disk, floor server and broker with a
// queue; delivery times; memory and restarts with messages waiting; publishing to SQL filters;
// publishing to correlation filters; many entities; forwarding; transactions.
func Stages() (names []string) {
	for _, stage := range stages {
		names = append(names, stage.name)
	}
	return names
}

// Suite measures the disk, the floor server and the broker in turn, in several rounds, then the
// other selected [Stages].
func Suite(ctx context.Context, o SuiteOptions) (*Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &suite{SuiteOptions: o, report: newReport(o)}
	for _, stage := range stages {
		if stage.own && o.Running != nil || !slices.Contains(o.Stages, stage.name) {
			continue
		}
		if err := stage.measure(s, ctx); err != nil {
			return nil, err
		}
	}
	return s.report, nil
}

func (s *suite) rounds(ctx context.Context) error {
	f, err := startFloorChild(ctx, s.Size)
	if err != nil {
		return err
	}
	defer f.kill()
	sides := []side{{name: floorSide, target: f.target, pid: f.pid()}}
	if s.Running != nil {
		sides = append(sides, side{brokerSide, *s.Running, s.ServerPID, true})
	} else {
		c, end, err := s.startBroker(ctx)
		if err != nil {
			return err
		}
		defer end()
		sides = append(sides, side{brokerSide, c.target, c.pid(), true})
	}
	for i := range sides {
		sides[i].target.Plain = s.Plain
	}
	for round := range s.Rounds {
		if err := s.disk(ctx, round); err != nil {
			return err
		}
		for i := range sides { // alternate the order, so that neither side is always first
			if err := s.loads(ctx, round, sides[(i+round)%len(sides)]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *suite) disk(ctx context.Context, round int) error {
	for _, n := range s.InFlight {
		d, err := floor.Disk(ctx, s.Dir, n*s.Size, s.DiskDuration)
		if err != nil {
			return err
		}
		s.Log("round %d: disk, %d messages a write: %.0f writes/s, median %v", round+1, n, d.PerSecond, short(d.Median))
		s.report.add(diskSide, sendRate(n), d.PerSecond*float64(n))
		s.report.add(diskSide, sendP50(n), micros(d.Median))
		s.report.add(diskSide, sendP99(n), micros(d.P99))
	}
	return nil
}

// loads measures one server: sends, then receiving the sent messages, then both at once.
func (s *suite) loads(ctx context.Context, round int, to side) error {
	base := Load{Size: s.Size, Duration: s.Duration, Acceptors: s.Acceptors, ServerPID: to.pid}
	add := func(name string, v float64) { s.report.add(to.name, name, v) }
	cpu := func(what string, r Result) {
		if r.ServerCPU != nil {
			add(cpuOf(what), *r.ServerCPU)
		}
		add(clientCPUOf(what), r.ClientCPU)
	}
	log := func(what string, r Result) {
		s.Log("round %d: %s, %s: %.0f/s", round+1, to.name, what, r.PerSecond)
	}
	var waiting int64
	for _, n := range s.InFlight {
		load := base
		load.InFlight = n
		r, err := Send(ctx, to.target, load)
		if err != nil {
			return fmt.Errorf("%s, send: %w", to.name, err)
		}
		waiting += r.Accepted
		log(fmt.Sprintf("send, %d in flight", n), r)
		add(sendRate(n), r.PerSecond)
		add(sendP50(n), micros(r.Send.P50))
		add(sendP99(n), micros(r.Send.P99))
		cpu(fmt.Sprintf("send, %d in flight", n), r)
	}
	load := base
	if to.stored {
		load.Count = waiting
	}
	r, err := Receive(ctx, to.target, load)
	if err != nil {
		return fmt.Errorf("%s, receive: %w", to.name, err)
	}
	log("receive", r)
	add(receiveRate, r.PerSecond)
	cpu("receive and complete", r)

	load = base
	load.InFlight = 64
	if r, err = Both(ctx, to.target, load); err != nil {
		return fmt.Errorf("%s, both: %w", to.name, err)
	}
	log("both", r)
	add(bothSendRate, r.PerSecond)
	add(bothReceiveRate, *r.Received)
	s.latencies(to, "both at once", r)
	cpu("both at once, per message sent", r)
	if s.Rate < 0 {
		return nil
	}
	load.Rate = s.Rate
	if r, err = Both(ctx, to.target, load); err != nil {
		return fmt.Errorf("%s, both at a fixed rate: %w", to.name, err)
	}
	what := fmt.Sprintf("both at %.0f/s", s.Rate)
	log(what, r)
	s.latencies(to, what, r)
	return nil
}

// latencies adds the latencies of a run that sent and received to the report.
func (s *suite) latencies(to side, what string, r Result) {
	for _, l := range []struct {
		name    string
		latency *Latency
	}{{"send", r.Send}, {"end to end", r.EndToEnd}} {
		if l.latency == nil {
			continue
		}
		s.report.add(to.name, latencyOf(what, l.name, "p50"), micros(l.latency.P50))
		s.report.add(to.name, latencyOf(what, l.name, "p99"), micros(l.latency.P99))
		s.report.add(to.name, latencyOf(what, l.name, "p99.9"), micros(l.latency.P999))
	}
}

// oftenCollected is the environment of a broker whose memory is measured: a garbage collection for
// every tenth of growth, so that the resident memory is close to the needed memory.
var oftenCollected = []string{"GOGC=10"}

// waiting measures the cost of waiting messages: memory, and time at a restart.
func (s *suite) waiting(ctx context.Context) error {
	if s.Waiting < 0 {
		return nil
	}
	b, err := newBroker(s.Program, s.Dir, &entityFile{Queues: []entityEntry{largeQueue()}})
	if err != nil {
		return err
	}
	defer b.remove()
	b.env = append([]string{"GODEBUG=gctrace=1"}, oftenCollected...)
	c, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { c.kill() }()
	if err := s.memory(ctx, c); err != nil {
		return err
	}
	b.env = nil
	if err := c.stop(); err != nil {
		return err
	}
	if c, err = b.start(ctx); err != nil { // a clean stop leaves checkpoints
		return err
	}
	if err := c.firstMessage(ctx); err != nil {
		return err
	}
	for range s.Restarts {
		c.kill()
		if len(b.checkpoints()) == 0 {
			s.Log("the broker has no checkpoints")
			break
		}
		if c, err = s.restart(ctx, b, restartWith); err != nil {
			return err
		}
	}
	for range s.Restarts {
		c.kill()
		for _, file := range b.checkpoints() {
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
		if c, err = s.restart(ctx, b, restartWithout); err != nil {
			return err
		}
	}
	return nil
}

// memory fills the queue and compares.
func (s *suite) memory(ctx context.Context, c *child) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	load := Load{Size: s.Size, InFlight: 512, Count: min(s.Waiting, 20_000)}
	// first fill the buffers whose size does not depend on waiting messages
	if _, err := Both(ctx, c.target, load); err != nil {
		return err
	}
	resident, err := residentAnonymous(c.pid())
	if err != nil {
		return err
	}
	heap := c.output.liveHeap()
	load.Count = s.Waiting
	r, err := Send(ctx, c.target, load)
	if err != nil {
		return err
	}
	s.Log("filled with %d messages: %.0f/s", s.Waiting, r.PerSecond)
	after, err := residentAnonymous(c.pid())
	if err != nil {
		return err
	}
	s.report.add(brokerSide, memoryResident, float64(after-resident)/float64(s.Waiting))
	s.report.add(brokerSide, memoryHeap, float64(c.output.liveHeap()-heap)/float64(s.Waiting))
	return nil
}

func (s *suite) restart(ctx context.Context, b *broker, name string) (*child, error) {
	c, err := b.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.firstMessage(ctx); err != nil {
		c.kill()
		return nil, err
	}
	took := time.Since(c.began)
	s.Log("%s: %v (%d checkpoint files)", name, short(took), len(b.checkpoints()))
	s.report.add(brokerSide, name, took.Seconds())
	return c, nil
}
