package attack

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

var (
	duration = flag.Duration("duration", 2*time.Second, "of each attack")
	program  = flag.String("program", "", "the broker's binary; default: it is built")
)

// few is how much there is to ask for in a short run, many in a long one.
const (
	few  = 5_000
	many = 100_000
	long = 30 * time.Second
)

// scene is a broker under attack.
type scene struct {
	testing.TB
	process  *harness.Process
	honest   *honest
	duration time.Duration
	many     int
}

// figures of an attack.
type figures struct {
	// bytes of resident memory: before the attack, the highest during it, what the formula allows,
	// and when all was given back
	before, peak, bound, after int64
	gone                       time.Duration // how long that took
	sockets                    int           // descriptors that were open at a time
}

// stage starts a broker for an attack. It is stopped, and must have lived until then, when the test
// ends.
func stage(tb testing.TB, binary string, a attack, d time.Duration, flags ...string) *scene {
	tb.Helper()
	dir := tb.TempDir()
	config := filepath.Join(dir, "entities.json")
	if err := os.WriteFile(config, entities(tb), 0o600); err != nil {
		tb.Fatal(err)
	}
	if a.files {
		files := 1024
		if d < long {
			files = 400 // at 200 connections a second a short attack reaches no more
		}
		limited := filepath.Join(dir, "limited")
		script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", files, binary)
		if err := os.WriteFile(limited, []byte(script), 0o700); err != nil {
			tb.Fatal(err)
		}
		binary = limited
	}
	s := &scene{TB: tb, process: harness.NewProcess(binary, filepath.Join(dir, "data"), append(flags, "--entities", config, "--log-level", "warn")...),
		duration: d, many: few}
	if d >= long {
		s.many = many
	}
	if _, err := s.process.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.process.Stop(); err != nil {
			tb.Error(err)
		}
	})
	s.honest = newHonest(tb, s.process)
	return s
}

// entities are a queue for the honest clients, and what is attacked.
func entities(tb testing.TB) []byte {
	type named map[string]any
	var rules []named
	for n := range 2000 {
		rules = append(rules, named{"Name": fmt.Sprint("rule-", n), "Properties": named{"FilterType": "Correlation",
			"CorrelationFilter": named{"Label": strings.Repeat("s", 100) + fmt.Sprint(n)}}})
	}
	text, err := json.Marshal(named{"UserConfig": named{"Namespaces": []named{{"Name": "attack",
		"Queues": []named{{"Name": "honest"}, {"Name": "other"}, {"Name": "attacked"}, {"Name": "full", "Properties": named{"MaxSizeInMegabytes": 1024}}, {"Name": "sessions", "Properties": named{"RequiresSession": true}}},
		"Topics": []named{{"Name": "topic", "Subscriptions": []named{{"Name": "sub", "Rules": rules}}}}}}}})
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// play lets the attack run beside the honest clients.
func (s *scene) play(a attack) (f figures) {
	s.Helper()
	if a.prepare != nil {
		a.prepare(s)
	}
	f.before = s.resident()
	f.bound = f.before + a.allowance(s)
	working, rest := context.WithCancel(context.Background())
	defer func() {
		rest()
		s.honest.workers.Wait()
	}()
	s.honest.work(working)
	attacking, cancel := context.WithTimeout(s.Context(), s.duration)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.assault(attacking, a)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.peak = max(f.peak, s.resident())
		case <-over:
			f.bound += s.waiting()
			s.givenBack(&f)
			return f
		}
	}
}

// assault lets attackers attack, in a process of their own: what they cost beyond the broker's time
// must not slow the honest clients.
func (s *scene) assault(ctx context.Context, a attack) {
	self, err := os.Executable()
	if err != nil {
		s.Error(err)
		return
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d", assaultVariable, a.name, s.process.Address(), s.duration, s.many))
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() == nil {
		s.Errorf("attackers: %v", err)
	}
	if len(out) > 0 {
		s.Logf("attackers:\n%s", out)
	}
}

// assaultVariable makes the test binary the attackers: its value is the attack's name and the
// fields of an assault.
const assaultVariable = "ATTACK_ASSAULT"

// assault is what attackers know.
type assault struct {
	address  string
	duration time.Duration
	many     int // messages, or sessions, that there are to ask for
}

func TestMain(m *testing.M) {
	what := os.Getenv(assaultVariable)
	if what == "" {
		os.Exit(m.Run())
	}
	var name, lasts string
	a := &assault{}
	_, err := fmt.Sscan(what, &name, &a.address, &lasts, &a.many)
	if err == nil {
		a.duration, err = time.ParseDuration(lasts)
	}
	known := append([]attack{crowd}, attacks...)
	i := slices.IndexFunc(known, func(a attack) bool { return a.name == name })
	if err != nil || i < 0 {
		fmt.Fprintln(os.Stderr, what, err)
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.duration)
	defer cancel()
	known[i].run(a, ctx)
}

// givenBack waits, after a long attack, until the broker has given back what it took for peers that
// are gone. With little to do it collects garbage every two minutes, and gives memory back after
// that.
func (s *scene) givenBack(f *figures) {
	s.Helper()
	began, most := time.Now(), f.before+room+caches+s.waiting()
	for f.after = s.resident(); s.duration >= long && f.after > most; f.after = s.resident() {
		if f.gone = time.Since(began); f.gone > 5*time.Minute {
			s.Errorf("%d MiB of memory stay when the attackers are gone, %d before; the formula allows %d", f.after>>20, f.before>>20, most>>20)
			return
		}
		time.Sleep(time.Second)
	}
}

// waiting is how many bytes the broker may take for the messages that wait, by the formula.
func (s *scene) waiting() (bytes int64) {
	s.Helper()
	c, err := admin.New(s.process.ConnectionString(), admin.Options{})
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	queues, err := c.List(s.Context(), event.Queue, "")
	if err != nil {
		s.Fatal(err)
	}
	for _, q := range queues {
		bytes += 2 * perMessage * int64(q.Runtime.Total())
	}
	return bytes
}

// resident is the memory of the broker in bytes; 0: the system does not say.
func (s *scene) resident() int64 { return s.statusBytes("RssAnon:") }

func binaryFor(tb testing.TB) string {
	tb.Helper()
	if *program != "" {
		return *program
	}
	return harness.Build(tb, tb.TempDir())
}

// TestAttack shows that hostile peers end nothing, that honest calls are answered meanwhile, and
// that memory stays within the formula (reliability.md I28).
func TestAttack(t *testing.T) {
	binary := binaryFor(t)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			s := stage(t, binary, a, *duration)
			f := s.play(a)
			if f.peak > f.bound {
				t.Errorf("%d MiB of memory, %d before; the formula allows %d", f.peak>>20, f.before>>20, f.bound>>20)
			}
			h := s.honest
			t.Logf("memory %d MiB, peak %d of %d, %d %s later; honest calls: p50 %s, p99 %s, max %s; with a new connection p99 %s; health p99 %s",
				f.before>>20, f.peak>>20, f.bound>>20, f.after>>20, f.gone.Round(time.Second), h.quantile(0.5, onLink...).Round(time.Microsecond), h.quantile(0.99, onLink...).Round(time.Microsecond),
				h.quantile(1, onLink...).Round(time.Microsecond), h.quantile(0.99, "connect and send").Round(time.Microsecond),
				h.quantile(0.99, "health").Round(time.Microsecond))
		})
	}
}

// BenchmarkAttack reports how long the calls of honest clients take during each attack. The goal is
// a p99 of 100 ms.
func BenchmarkAttack(b *testing.B) {
	binary := binaryFor(b)
	for _, a := range attacks {
		b.Run(a.name, func(b *testing.B) {
			s := stage(b, binary, a, max(*duration, 10*time.Second))
			for b.Loop() {
				f := s.play(a)
				b.ReportMetric(float64(f.peak)/(1<<20), "peak-MiB")
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(s.honest.quantile(0.99, onLink...))/1e6, "p99-ms")
			b.ReportMetric(float64(s.honest.quantile(0.99, "connect and send"))/1e6, "connect-p99-ms")
		})
	}
}
