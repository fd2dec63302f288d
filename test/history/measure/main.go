// Command measure measures how long somebody who types questions about the past waits for the
// answers: each is a process of its own, of which the time to the first line, the time to the end
// and the most memory are taken; cold (the caches of the kernel are dropped first, which takes
// root) and warm.
//
//	go run ./test/history/make --events 10000000 --dead 3 --lost 20 /tmp/day
//	go run ./test/history/make --events 3000000 --dead 1000 --lost 50 --queues 1 --partitions 1 /tmp/dead
//	go build -o /tmp/ledgerbus ./cmd/ledgerbus
//	go run ./test/history/measure --ledgerbus /tmp/ledgerbus --day /tmp/day --dead /tmp/dead --cold
//	go run ./test/history/measure --ledgerbus /tmp/ledgerbus --broker CONNECTION-STRING
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/test/history"
)

func main() {
	var m measurement
	flag.StringVar(&m.binary, "ledgerbus", "ledgerbus", "the command")
	flag.StringVar(&m.day, "day", "", "directory with a day of 10,000,000 events")
	flag.StringVar(&m.dead, "dead", "", "directory with 1,000,000 dead letters")
	flag.IntVar(&m.rounds, "rounds", 5, "how often each is asked")
	flag.BoolVar(&m.cold, "cold", false, "ask with cold caches, too: takes root")
	broker := flag.String("broker", "", "connection string of a broker that runs on a copy of the day: asks that one")
	flag.Parse()
	measure := m.run
	switch {
	case flag.NArg() > 0, *broker == "" && (m.day == "" || m.dead == ""):
		flag.Usage()
		os.Exit(2)
	case *broker != "":
		measure = func(ctx context.Context) error { return m.online(ctx, *broker) }
	}
	if err := m.prepared(context.Background(), measure); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type measurement struct {
	binary, day, dead string
	rounds            int
	cold              bool
	scratch           string
}

// question is a command line, and what it must reach.
type question struct {
	what string
	goal string
	args []string
	// until is in the line up to which the time of the answer is taken; "": the end.
	until string
}

// message is the number of the one that is asked about.
const message = 800_000

// prepared measures with a directory for what commands write.
func (m *measurement) prepared(ctx context.Context, measure func(context.Context) error) (err error) {
	if m.scratch, err = os.MkdirTemp("", "measure"); err != nil {
		return err
	}
	defer os.RemoveAll(m.scratch)
	return measure(ctx)
}

// once reports whether it is asked once, since it takes long.
func (q *question) once() bool {
	return strings.HasPrefix(q.what, "export") || strings.HasPrefix(q.what, "debug") || strings.HasPrefix(q.what, "slice")
}

func (m *measurement) run(ctx context.Context) error {
	queue := history.Queue(0)
	noon := history.Begins.Std().UTC().Add(12 * time.Hour)
	at := func(t time.Time) string { return t.Format(time.RFC3339) }
	number := fmt.Sprint(message)
	questions := []question{
		{"story of one message, by number", "100 ms cold", []string{"story", queue + "#" + number, "--data", m.day}, ""},
		{"story of one message, by id", "100 ms cold", []string{"story", "--message-id", history.MessageID(0, message), "--data", m.day}, ""},
		{"why, one message", "", []string{"why", queue + "#" + number, "--data", m.day}, ""},
		{"at noon, one queue", "2 s", []string{"at", at(noon), queue, "--data", m.day}, ""},
		{"diff of an hour, one queue", "2 s", []string{"diff", at(noon), at(noon.Add(time.Hour)), queue, "--data", m.day}, ""},
		{"why, 1,000,000 dead letters: groups, counts, spans", "1 s", []string{"why", queue + "/$dlq", "--data", m.dead}, "dead letters since"},
		{"… refined", "10 s", []string{"why", queue + "/$dlq", "--data", m.dead}, ""},
		{"when, never true", "5 s", []string{"when", queue + ".dead > 999999999", "--data", m.day}, ""},
		{"audit", "", []string{"audit", "--data", m.day}, ""},
		{"debug: state at noon, a step back, a step on", "", []string{"debug", m.day, "--at", at(noon), "-c", "print " + queue + "; back; next; print " + queue}, ""},
		{"debug: on to where a condition is never true", "", []string{"debug", m.day, "--at", at(noon.Add(11 * time.Hour)), "-c", "break number = 999999999; continue"}, ""},
		{"slice of an hour", "", []string{"slice", m.day, "--since", at(noon), "--until", at(noon.Add(time.Hour)), "--into", "OUT"}, ""},
		{"slice of all, with bodies", "", []string{"slice", m.day, "--bodies", "keep", "--into", "OUT"}, ""},
		{"export, JSON lines", "200,000 events/s a core: 50 s", []string{"log", "export", m.day, "--format", "jsonl", "--into", "OUT"}, ""},
		{"export, CSV", "50 s", []string{"log", "export", m.day, "--format", "csv", "--into", "OUT"}, ""},
		{"export, Parquet", "50 s", []string{"log", "export", m.day, "--format", "parquet", "--into", "OUT"}, ""},
	}
	fmt.Println("| | goal | cache | first line, ms | answer, ms | CPU, ms | memory at most, MiB |")
	fmt.Println("|---|---|---|---:|---:|---:|---:|")
	for _, q := range questions {
		for _, cold := range []bool{true, false} {
			if cold && (!m.cold || q.once()) {
				continue
			}
			if err := m.ask(ctx, &q, cold); err != nil {
				return fmt.Errorf("%s: %w", q.what, err)
			}
		}
	}
	fmt.Printf("\nThis process had %d MiB, and less can not be shown of another.\n", ownMemory())
	return nil
}

// asked is what one process took.
type asked struct {
	first, answer, cpu time.Duration
	memory             int64 // MiB
}

// ask asks in rounds and prints the medians.
func (m *measurement) ask(ctx context.Context, q *question, cold bool) error {
	rounds, cache := m.rounds, "warm"
	if q.once() {
		rounds = 1
	}
	if cold {
		cache = "cold"
	} else if rounds > 1 { // so that it is warm
		if _, err := m.once(ctx, q); err != nil {
			return err
		}
	}
	var all []asked
	for range rounds {
		if cold {
			if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
				return err
			}
			if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
				return err
			}
			if err := readIn(m.binary); err != nil { // the program is not what is measured
				return err
			}
		}
		a, err := m.once(ctx, q)
		if err != nil {
			return err
		}
		all = append(all, a)
	}
	median := func(of func(asked) float64) float64 {
		var list []float64
		for _, a := range all {
			list = append(list, of(a))
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	fmt.Printf("| %s | %s | %s | %.0f | %.0f | %.0f | %.0f |\n", q.what, q.goal, cache, median(func(a asked) float64 { return ms(a.first) }),
		median(func(a asked) float64 { return ms(a.answer) }), median(func(a asked) float64 { return ms(a.cpu) }), median(func(a asked) float64 { return float64(a.memory) }))
	return nil
}

// readIn has the kernel hold a file, and this process nothing of it: what Linux reports as the most
// memory of a process is at least what its parent had when it was started, since it begins as that
// one.
func readIn(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// once asks in a process.
func (m *measurement) once(ctx context.Context, q *question) (a asked, err error) {
	out := filepath.Join(m.scratch, "out")
	defer os.RemoveAll(out)
	args := slices.Clone(q.args)
	if i := slices.Index(args, "OUT"); i >= 0 {
		args[i] = out
	}
	cmd := exec.CommandContext(ctx, m.binary, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return a, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return a, err
	}
	in := bufio.NewReader(pipe)
	found := false
	for {
		line, err := in.ReadString('\n')
		if line != "" && a.first == 0 {
			a.first = time.Since(began)
		}
		if q.until != "" && !found && strings.Contains(line, q.until) {
			found, a.answer = true, time.Since(began)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return a, err
		}
	}
	if err := cmd.Wait(); err != nil {
		return a, fmt.Errorf("%w: %s", err, errs.String())
	}
	if !found {
		if q.until != "" {
			return a, fmt.Errorf("no line has %q", q.until)
		}
		a.answer = time.Since(began)
	}
	a.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	a.memory = memoryOf(cmd.ProcessState)
	return a, nil
}
