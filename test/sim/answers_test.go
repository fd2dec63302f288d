package sim

import (
	"flag"
	"runtime"
	"sync"
	"testing"
)

var flagAnswers = flag.Bool("answers", false, "ask 1,000 questions of each of 200 worlds, in place of 200 of 40")

// What the ledger says of the past of a world is what the model says: states of entities behind
// random frames, how two such states differ, and the ends of messages; with moves, copies, power
// cuts, sealed files, bases and clocks that are set.
func TestAnswers(t *testing.T) {
	t.Parallel()
	seeds, questions := uint64(40), 200
	if *flagAnswers {
		seeds, questions = 200, 1000
	}
	if *flagSeed != 0 {
		if res := run(*flagSeed, nil, func(o *options) { o.questions = questions }); res.Violation != nil {
			t.Fatal(res.Violation)
		}
		return
	}
	var mu sync.Mutex
	var all Stats
	var wg sync.WaitGroup
	next := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				res := run(seed, nil, func(o *options) { o.questions = questions })
				mu.Lock()
				all.Add(res.Stats)
				mu.Unlock()
				if res.Violation != nil {
					t.Errorf("%v, want nil", res.Violation)
				}
			}
		})
	}
	for seed := *flagFirst; seed < *flagFirst+seeds && !t.Failed(); seed++ {
		next <- seed
	}
	close(next)
	wg.Wait()
	t.Logf("%d questions of %d worlds, %d bases, %d sealed files, %d power losses, %d clocks set", all.Questions, all.Seeds, all.Bases, all.Sealed, all.PowerLosses, all.ClocksSet)
	if all.Questions < int64(seeds)*int64(questions)*8/10 || all.Bases == 0 || all.Sealed == 0 {
		t.Error("too little was asked")
	}
}
