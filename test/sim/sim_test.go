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
	"sync/atomic"
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

func TestSim(t *testing.T) {
	if *flagSeed != 0 {
		one(t, *flagSeed)
		return
	}
	var (
		next  = *flagFirst
		end   = *flagFirst + uint64(*flagSeeds)
		stop  time.Time
		mu    sync.Mutex
		stats Stats
		bad   atomic.Bool
		found = map[string]int{} // violations by invariant
		wg    sync.WaitGroup
	)
	if *flagDuration > 0 {
		stop, end = time.Now().Add(*flagDuration), ^uint64(0)
	}
	debug.SetGCPercent(400)
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !bad.Load() {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= end || !stop.IsZero() && time.Now().After(stop) {
					return
				}
				if *flagDamage && !Damaging(seed) {
					continue
				}
				res := Run(seed, nil)
				if res.Violation == nil && seed%100 == 0 { // 1 % run twice
					if again := Run(seed, nil); again.Hash != res.Hash {
						res.Violation = &Violation{Seed: seed, Invariant: "determinism", Text: fmt.Sprintf("trace hashes %x and %x", res.Hash, again.Hash)}
					}
					res.Stats.Reruns++
				}
				if alwaysFail {
					res.Violation = &Violation{Seed: seed, Invariant: "canary", Text: "this test must fail"}
				}
				mu.Lock()
				stats.Add(res.Stats)
				if *flagHashes && testing.Verbose() {
					t.Logf("seed %d hash %016x", seed, res.Hash)
				}
				switch {
				case res.Violation == nil:
				case *flagAll:
					found[res.Violation.Invariant]++
				default:
					bad.Store(true)
					report(t, res.Violation, seed-*flagFirst+1)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	t.Logf("%d seeds in %v, %.0f seeds/s\n%v", stats.Seeds, took.Round(time.Millisecond), float64(stats.Seeds)/took.Seconds(), stats)
	if len(found) > 0 {
		t.Errorf("violations: %v", found)
	}
	if stats.Seeds < 1000 || *flagDamage || t.Failed() {
		return
	}
	for k := event.KindOriginDefined; k <= event.KindScheduledPublished; k++ { // a generator that never gets there proves nothing
		if k.String() != "" && stats.Kinds[k] == 0 {
			t.Errorf("no %v in %d seeds", k, stats.Seeds)
		}
	}
	for what, n := range map[string]int64{"kills": stats.Kills, "power losses": stats.PowerLosses, "clean stops": stats.CleanStops,
		"crashes inside recovery": stats.CrashesInRecovery, "cuts": stats.Cuts, "I/O errors": stats.IOErrors,
		"refused flips": stats.FlipsRefused, "clock jumps": stats.Jumps, "refused clocks": stats.ClocksRefused, "decisions about clocks": stats.ClocksSet, "pauses": stats.Pauses, "swept messages": stats.Swept,
		"checkpoints": stats.Checkpoints, "changes cut off": stats.CutOff, "deletions for idleness": stats.IdleDeleted, "waits of a start": stats.StartWaits,
		"syncs with something else meanwhile": stats.LongSyncs, "writes during a sync": stats.WritesDuringSync, "crashes in a sync": stats.DiedInSync,
		"reasons cut short": stats.ReasonsCut, "headers too large": stats.HeadersTooLarge, "copies": stats.Copies, "refusals": stats.Refusals} {
		if n == 0 {
			t.Errorf("no %s in %d seeds", what, stats.Seeds)
		}
	}
	if cells := stats.Empty(); len(cells) > 0 {
		t.Logf("%d empty cells: %s", len(cells), strings.Join(cells, "; "))
		if stats.Seeds >= 10_000 {
			t.Errorf("the generator left %d cells empty", len(cells))
		}
	}
}

// alwaysFail makes every seed report a violation: the canary of TestPlantedBugs.
var alwaysFail bool

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
