package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var flagPowerCuts = flag.Int64("power-cuts", 0, "how often the power is cut while history is given back, in TestSpacePowerCuts; 0: 1,000 times, or 50 with -short")

// always has history given back all the time, so that both files and bodies go.
func always(o *options) {
	o.sealAfter, o.sealing, o.spacing, o.eager, o.checkpointBytes = -1, 60, 60, true, 1
}

// The power is cut a thousand times inside a call of the file system that makes a base, removes
// files or drops bodies, and a thousand times inside one that seals: the state is that of a log
// that lost nothing.
func TestSpacePowerCuts(t *testing.T) {
	t.Parallel()
	want := *flagPowerCuts
	if want == 0 {
		if want = 1000; testing.Short() {
			want = 50
		}
	}
	var all Stats
	seed := uint64(1)
	for ; min(all.PowerCutsInSpace, all.PowerCutsSealing) < want; seed++ {
		res := run(seed, nil, func(o *options) {
			always(o)
			o.crashes, o.power, o.dying = true, 100, 10
			switch o.chapterBytes = 1; seed % 4 {
			case 0, 2: // bodies are dropped where there are many
				o.chapterBytes, o.maxBody, o.operation[opBatch] = 8<<10, 4096, 60
			case 3: // and stay alone where they are few
				o.chapterBytes, o.maxBody = 12<<10, 2048
			}
			o.damage, o.errors, o.jumps, o.refuses = false, false, false, false
			o.steps = min(o.steps, 500)
		})
		if all.Add(res.Stats); res.Violation != nil {
			t.Fatalf("%v\n%v", res.Violation, all)
		}
	}
	t.Logf("%d power cuts, and %d while sealing, in %d seeds; bases %d, cuts %d, files without bodies %d, of bodies %d", all.PowerCutsInSpace, all.PowerCutsSealing, seed-1, all.Bases, all.FilesCut, all.FilesRevised, all.FilesOfBodies)
	if all.Bases < want/10 || all.FilesCut < want/10 || all.FilesRevised < want/100 || all.FilesOfBodies < want/1000 {
		t.Errorf("too little was given back meanwhile")
	}
}

// layouts are ways to cut a log into files, which moves the addresses in it.
var layouts = []struct {
	name   string
	change func(*options)
}{
	{"tiny segments", func(o *options) { o.segmentBytes, o.roomBytes, o.chapterBytes = 1, -1, 1 }},
	{"tiny chapters", func(o *options) { o.chapterBytes = 1 }},
	{"chapters of 8 KiB", func(o *options) { o.chapterBytes, o.chapterAge = 8<<10, time.Hour }},
	{"huge segments", func(o *options) {
		o.segmentBytes, o.roomBytes, o.chapterBytes, o.chapterAge = 64<<20, 16<<10, 64<<20, time.Hour
	}},
}

// retentions are what may become of what was written.
var retentions = []struct {
	name   string
	change func(*options)
}{
	{"never anything", func(*options) {}},
	{"always checkpoints", func(o *options) { o.checkpointBytes = 1 }},
	{"sealed at once", func(o *options) { o.sealAfter, o.sealing = -1, 100 }},
	{"sealed at once, always checkpoints", func(o *options) { o.sealAfter, o.sealing, o.checkpointBytes = -1, 100, 1 }},
	{"always cut and dropped", func(o *options) { always(o); o.sealing, o.spacing = 100, 100 }},
	{"sometimes cut and dropped", func(o *options) { always(o); o.spacing, o.eager = 10, false }},
}

// The same operations, whatever becomes of files: segments tiny or huge, checkpoints never or
// always, chapters sealed never or at once, history cut and bodies dropped never or all the time.
// Clients have the same answers, and where addresses are the same so are the last states. In every
// other run the process stops or dies after every few operations (SM-367, SM-369).
func TestSpaceChangesNothing(t *testing.T) {
	t.Parallel()
	seeds := uint64(40)
	if testing.Short() {
		seeds = 8
	}
	var all Stats
	for seed := range seeds {
		var answers uint64
		for i, layout := range layouts {
			var state uint64
			for k, keep := range retentions {
				res := run(seed, nil, func(o *options) { alike(o, seed%2 == 0); layout.change(o); keep.change(o) })
				all.Add(res.Stats)
				if res.Violation != nil {
					t.Fatalf("%s, %s: %v", layout.name, keep.name, res.Violation)
				}
				if i == 0 && k == 0 {
					answers = res.Answers
				}
				if k == 0 {
					state = res.State
				}
				if res.Answers != answers || res.State != state {
					t.Errorf("seed %d, %s, %s: answers %x, else %x; states %x, else %x", seed, layout.name, keep.name, res.Answers, answers, res.State, state)
				}
			}
		}
	}
	text := fmt.Sprintf("%d sealed, %d bases, %d cuts, %d files without bodies, %d of bodies, %d starts", all.Sealed, all.Bases, all.FilesCut, all.FilesRevised, all.FilesOfBodies, all.Recoveries)
	t.Log(text)
	if all.Sealed == 0 || all.Bases == 0 || all.FilesCut == 0 || all.FilesRevised == 0 || all.FilesOfBodies == 0 {
		t.Errorf("it was not tried: %s", text)
	}
}

// alike has a world do the same whatever its files are: nothing fails, and the power stays on.
func alike(o *options, ends bool) {
	o.steady, o.deep, o.errors, o.damage, o.refuses, o.forge, o.power = true, false, false, false, false, false, 0
	o.steps, o.maxBody = min(o.steps, 400), 4096
	o.actions[actArm], o.actions[actError], o.actions[actRevive] = 0, 0, 0
	o.actions[actCrash], o.actions[actStop] = 0, 0
	if o.crashes = ends; ends {
		o.actions[actCrash], o.actions[actStop] = 20, 20 // of about 300
	}
	o.checkpointBytes, o.sealAfter, o.spacing = never, 0, 0
	o.untold = true // what is cut before its time would move the addresses behind it
	// which partition a send without a key goes to depends on what else goes on: not compared yet
	o.split = 0
}
