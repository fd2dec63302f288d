package sim

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var (
	flagSeeds    = flag.Int("seeds", 300, "seeds to run")
	flagFirst    = flag.Uint64("first", 1, "first seed")
	flagSeed     = flag.Uint64("seed", 0, "run this one seed; with -v its trace is printed")
	flagDuration = flag.Duration("duration", 0, "run seeds until this time is up")
	flagDamage   = flag.Bool("damage", false, "with seeds of the damage mode only")
	flagAll      = flag.Bool("all", false, "go on after a violation, and count them by what is broken")
	flagHashes   = flag.Bool("hashes", false, "with -v, print the trace hash of each seed")
)

// seedRuns runs seeds on every core, until they or the time are used up or one of them breaks
// something.
type seedRuns struct {
	t     *testing.T
	end   uint64    // the first seed that is not run
	stop  time.Time // zero: whenever the seeds are through
	mu    sync.Mutex
	next  uint64
	stats Stats
	bad   bool
	found map[string]int // violations by invariant, where a violation does not end the run
}

func (r *seedRuns) run() {
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed, ok := r.take(); ok; seed, ok = r.take() {
				if !*flagDamage || Damaging(seed) {
					r.count(seed, runSeed(seed))
				}
			}
		})
	}
	wg.Wait()
}

// take is the next seed to run.
func (r *seedRuns) take() (seed uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seed = r.next
	r.next++
	return seed, !r.bad && seed < r.end && (r.stop.IsZero() || time.Now().Before(r.stop))
}

// runSeed runs a seed; 1 % of them twice, which must come to the same.
func runSeed(seed uint64) Result {
	res := Run(seed, nil)
	if res.Violation == nil && seed%100 == 0 {
		if again := Run(seed, nil); again.Hash != res.Hash {
			res.Violation = &Violation{Seed: seed, Invariant: "determinism", Text: fmt.Sprintf("trace hashes %x and %x", res.Hash, again.Hash)}
		}
		res.Stats.Reruns++
	}
	return res
}

func (r *seedRuns) count(seed uint64, res Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Add(res.Stats)
	if *flagHashes && testing.Verbose() {
		r.t.Logf("seed %d hash %016x", seed, res.Hash)
	}
	switch {
	case res.Violation == nil:
	case *flagAll:
		r.found[res.Violation.Invariant]++
		r.t.Log(res.Violation)
	default:
		r.bad = true
		report(r.t, res.Violation, seed-*flagFirst+1)
	}
}

func TestSim(t *testing.T) {
	if *flagSeed != 0 {
		one(t, *flagSeed)
		return
	}
	r := seedRuns{t: t, next: *flagFirst, end: *flagFirst + uint64(*flagSeeds), found: map[string]int{}}
	if *flagDuration > 0 {
		r.stop, r.end = time.Now().Add(*flagDuration), ^uint64(0)
	}
	debug.SetGCPercent(400)
	began := time.Now()
	r.run()
	took := time.Since(began)
	t.Logf("%d seeds in %v, %.0f seeds/s\n%v", r.stats.Seeds, took.Round(time.Millisecond), float64(r.stats.Seeds)/took.Seconds(), r.stats)
	if len(r.found) > 0 {
		t.Errorf("violations: %v", r.found)
	}
	if r.stats.Seeds >= 1000 && !*flagDamage && !t.Failed() {
		checkCoverage(t, &r.stats)
	}
}

// checkCoverage checks that many seeds met everything there is: a generator that never gets there
// proves nothing.
func checkCoverage(t *testing.T, stats *Stats) {
	t.Helper()
	for k := event.KindOriginDefined; k <= event.KindScheduledPublished; k++ {
		if k.String() != "" && stats.Kinds[k] == 0 {
			t.Errorf("no %v in %d seeds", k, stats.Seeds)
		}
	}
	for _, k := range []event.Kind{event.KindRunStarted, event.KindSettlementRefused, event.KindSendsRefused,
		event.KindTransactionCommitted, event.KindTransactionAborted, event.KindNumbersReserved,
		event.KindTransferStarted, event.KindMessageHandedOver, event.KindTransfersFinished, event.KindTransferFailed, event.KindSourceForgotten} {
		if stats.Kinds[k] == 0 {
			t.Errorf("no %v in %d seeds", k, stats.Seeds)
		}
	}
	for what, n := range map[string]int64{"kills": stats.Kills, "power losses": stats.PowerLosses, "clean stops": stats.CleanStops,
		"crashes inside recovery": stats.CrashesInRecovery, "cuts": stats.Cuts, "I/O errors": stats.IOErrors,
		"refused flips": stats.FlipsRefused, "clock jumps": stats.Jumps, "refused clocks": stats.ClocksRefused, "decisions about clocks": stats.ClocksSet, "pauses": stats.Pauses, "swept messages": stats.Swept,
		"checkpoints": stats.Checkpoints, "changes cut off": stats.CutOff, "deletions for idleness": stats.IdleDeleted, "waits of a start": stats.StartWaits,
		"syncs with something else meanwhile": stats.LongSyncs, "writes during a sync": stats.WritesDuringSync, "crashes in a sync": stats.DiedInSync,
		"moves": stats.Moves, "partitions refused": stats.PartitionsRefused, "partitions that come back": stats.Revived, "fences": stats.Fenced, "fences in order": stats.FencedInOrder, "restarts in vain": stats.RestartsInVain, "requests to a refused partition": stats.Busy, "offers turned away": stats.TurnedAway, "commits over two entities": stats.CrossCommits,
		"changes of faults": stats.Faults, "disks that hang": stats.Hangs, "requests turned away for a fault": stats.AwayByFault, "requests refused for a fault": stats.BusyByFault, "memory that was not there": stats.MemoryRefused,
		"sealed chapters": stats.Sealed, "crashes while sealing": stats.DiedSealing,
		"bases": stats.Bases, "cuts of history": stats.FilesCut, "files without bodies": stats.FilesRevised, "files of bodies": stats.FilesOfBodies, "crashes while history was given back": stats.DiedInSpace, "thorough looks": stats.Tidied, "events of cuts": stats.CutsTold, "hurries": stats.Hurries,
		"rollbacks": stats.Aborts[event.AbortRolledBack], "transactions out of time": stats.Aborts[event.AbortTimedOut],
		"transactions lost with their clients": stats.Aborts[event.AbortLost], "commits that failed": stats.Aborts[event.AbortFailed],
		"transactions that gave messages back": stats.GivenBack,
		"reasons cut short":                    stats.ReasonsCut, "headers too large": stats.HeadersTooLarge, "copies": stats.Copies, "refusals": stats.Refusals} {
		if n == 0 {
			t.Errorf("no %s in %d seeds", what, stats.Seeds)
		}
	}
	if unmoved := stats.Unmoved(); len(unmoved) > 0 {
		t.Logf("never in %d seeds: %v", stats.Seeds, unmoved)
		if stats.Seeds >= 10_000 {
			t.Errorf("%d things never became of a message that moves", len(unmoved))
		}
	}
	if cells := stats.Empty(); len(cells) > 0 {
		t.Logf("%d empty cells: %s", len(cells), strings.Join(cells, "; "))
		if stats.Seeds >= 10_000 {
			t.Errorf("the generator left %d cells empty", len(cells))
		}
	}
}

// report says what was broken and how to see it again.
func report(t *testing.T, v *Violation, seeds uint64) {
	t.Errorf("VIOLATION %v\nafter %d seeds; replay: go test ./test/sim -run TestSim -seed %d -v", v, seeds, v.Seed)
}

func one(t *testing.T, seed uint64) {
	var res Result
	if testing.Verbose() {
		out := bufio.NewWriter(os.Stdout)
		res = Run(seed, out)
		out.Flush()
	} else {
		res = Run(seed, nil)
	}
	t.Logf("seed %d hash %016x\n%v", seed, res.Hash, res.Stats)
	if res.Violation != nil {
		report(t, res.Violation, 1)
	}
}

// TestSavedSeeds runs the seeds that found something once.
func TestSavedSeeds(t *testing.T) {
	file, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		seed, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if res := Run(seed, nil); res.Violation != nil {
			report(t, res.Violation, 1)
		}
	}
}
