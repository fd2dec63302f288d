package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/archive"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// released names directories of versions that kept everything, of formats 1 and 2
// (test/compatible).
var released = []string{"first", "sessions", "topics", "room", "payload-4", "payload-5", "moves", "sealed"}

// someReleased are some of them: of both formats, with and without checkpoints that a base can be
// made of.
var someReleased = []string{"first", "room", "payload-5", "moves"}

// upgradedBroker is a broker of today on a directory of an older version, thirty days after that
// version was stopped. It runs in a bubble, and removes everything that policies allow, however
// small it is.
type upgradedBroker struct {
	*broker
	t       *testing.T
	fs      *faultfs.FS
	began   time.Time    // in the bubble
	skipped atomic.Int64 // ns, besides the time of the bubble
	newest  event.Time
	disk    *sizedDisk
	said    *logText
	history engine.PutHistoryPolicy // of the settings
	stop    func()
	cuts    []engine.PartitionID
}

// sizedDisk is a store on a disk with as much room as a test says.
type sizedDisk struct {
	log.Store
	mu   sync.Mutex // guards the fields below
	free int64
}

const (
	upgradeDir  = "/data"
	upgradeDisk = 1 << 40
	upgradeLow  = 1 << 30
)

func (s *sizedDisk) Space() (total, free, low int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return upgradeDisk, s.free, upgradeLow, nil
}

func (s *sizedDisk) has(free int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = free
}

// logText is the text that a broker logs.
type logText struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (w *logText) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *logText) count(part string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), part)
}

func (u *upgradedBroker) Wall() time.Time {
	return u.newest.Std().Add(30*24*time.Hour + u.Elapsed())
}

func (u *upgradedBroker) Elapsed() time.Duration {
	return time.Since(u.began) + time.Duration(u.skipped.Load())
}

// sleep advances the time, and waits until other goroutines rest.
func (u *upgradedBroker) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// pass advances the time. Only the last minutes of it pass second by second.
func (u *upgradedBroker) pass(d time.Duration) {
	const last = 5 * time.Minute
	u.skipped.Add(int64(d - last))
	u.sleep(last)
}

// sealOnce seals and reads something outside of bubbles: otherwise the channels of the compressor,
// made at its first use, would belong to one bubble.
var sealOnce sync.Once

func sealOutside(t *testing.T) {
	sealOnce.Do(func() {
		var said strings.Builder
		b, _ := openSealing(t, &said)
		b.close(t)
	})
}

// upgrade prepares a directory.
func upgrade(t *testing.T, shape string) *upgradedBroker {
	t.Helper()
	u := &upgradedBroker{t: t, fs: unpack(t, filepath.Join("..", "..", "test", "compatible", "testdata", shape+".tar.gz")), began: time.Now(), said: &logText{}}
	u.eachLog(func(p log.Partition) { u.newest = max(u.newest, p.Recovery().Newest) })
	return u
}

// eachLog reads the logs of the directory while no broker has it.
func (u *upgradedBroker) eachLog(look func(log.Partition)) {
	u.t.Helper()
	s, err := log.Open(u.t.Context(), upgradeDir, log.Options{FS: u.fs, ReadOnly: true})
	if err != nil {
		u.t.Fatal(err)
	}
	defer s.Close()
	for _, id := range s.Partitions() {
		p, err := s.Open(u.t.Context(), id)
		if err != nil {
			u.t.Fatal(err)
		}
		look(p)
	}
}

// start starts the broker and its retention.
func (u *upgradedBroker) start() {
	u.t.Helper()
	store, err := log.Open(u.t.Context(), upgradeDir, log.Options{FS: u.fs, Now: u.Wall, SealAfter: 10 * time.Minute})
	if err != nil {
		u.t.Fatal(err)
	}
	if u.disk == nil {
		u.disk = &sizedDisk{free: upgradeDisk / 2}
	}
	u.disk.Store = store
	n, err := Open(u.t.Context(), u.disk, Options{Time: u, Logger: slog.New(slog.NewTextHandler(u.said, nil)), History: u.history, keepAllHistory: true})
	if err != nil {
		u.t.Fatal(err)
	}
	u.broker = &broker{n, store}
	k := background.NewRetention(n.surroundings())
	k.Cut = u.cutEagerly
	ctx, cancel := context.WithCancel(u.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	u.stop = func() { cancel(); <-ended }
}

// cutEagerly also makes cuts that are hardly worth it, and compares the state before with that
// after it.
func (u *upgradedBroker) cutEagerly(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (int64, error) {
	_, end := p.Bounds()
	before := u.state(engine.PartitionID(p.ID()))
	freed, err := replay.Cut(ctx, p, upTo, true)
	if freed > 0 {
		u.cuts = append(u.cuts, engine.PartitionID(p.ID()))
		after := u.state(engine.PartitionID(p.ID()))
		if _, now := p.Bounds(); now == end && after != before { // nothing else ran
			u.t.Errorf("partition %d: state %s after a cut, %s before it", p.ID(), after, before)
		}
	}
	return freed, err
}

// state returns the hash of a partition's state. All bodies that it points to can be read.
func (u *upgradedBroker) state(id engine.PartitionID) (hash string) {
	u.t.Helper()
	err := u.surroundings().State(context.Background(), id, func(s *index.Snapshot, _ []event.Blob) error {
		h := sha256.New()
		if _, err := s.Encode(h); err != nil {
			return err
		}
		hash = hex.EncodeToString(h.Sum(nil))
		for b := range s.Blobs() {
			if _, err := u.readBlob(id, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		u.t.Error(err)
	}
	return hash
}

// end stops the broker. A replay of the rest of each log, from its base on, gives the state that
// the broker had.
func (u *upgradedBroker) end() {
	u.t.Helper()
	u.stop()
	var live [][32]byte
	stopped := u.slots
	u.close(u.t)
	for i := range stopped {
		live = append(live, sha256.Sum256(stopped[i].running.Load().part.Index().Encode(nil)))
	}
	u.eachLog(func(p log.Partition) {
		s := replay.Begin(p)
		if err := s.Run(u.t.Context(), replay.Watch{}); err != nil {
			u.t.Fatal(err)
		}
		if s.Hash() != live[p.ID()] {
			u.t.Errorf("partition %d: a replay comes to another state than the broker had", p.ID())
		}
	})
}

// deleteOthers deletes all entities except a queue, so that many bodies are unneeded once their
// undo window has ended.
func (u *upgradedBroker) deleteOthers(than string) {
	u.t.Helper()
	for _, e := range u.Entities() {
		if e.Path == than || e.Kind == event.Subscription {
			continue
		}
		if err := u.DeleteEntity(u.t.Context(), engine.DeleteEntity{Path: e.Path}); err != nil {
			u.t.Fatal(err)
		}
	}
}

// bodies counts the bodies that the logs have, of waiting and of settled messages.
func (u *upgradedBroker) bodies() (bytes int64) {
	u.t.Helper()
	for i := range u.slots {
		for s, err := range (*u.slots[i].log.Load()).Summaries(u.t.Context()) {
			if err != nil {
				u.t.Fatal(err)
			}
			bytes += int64(s.BodyBytes - s.ErasedBytes)
		}
	}
	return bytes
}

// sealed reports whether each chapter that has ended is sealed.
func (u *upgradedBroker) sealed() bool {
	for i := range u.slots {
		list := (*u.slots[i].log.Load()).Segments()
		for _, s := range list {
			if s.Chapter != list[len(list)-1].Chapter && !strings.HasSuffix(s.File, ".lbs") {
				return false
			}
		}
	}
	return true
}

// forcedCuts returns the events of the catalogue's log which record that history was cut early.
func (u *upgradedBroker) forcedCuts() (list []*event.HistoryCut) {
	u.t.Helper()
	for rec, err := range replay.Records(u.t.Context(), *u.slots[0].log.Load(), 0) {
		if err != nil {
			u.t.Fatal(err)
		}
		for _, ev := range rec.Events {
			if c, ok := ev.(*event.HistoryCut); ok {
				copied := *c
				list = append(list, &copied)
			}
		}
	}
	return list
}

const (
	saysLater = "history from before the upgrade is deleted after a day"
	saysNow   = "history that no policy keeps"
	saysGiven = "history deleted"
	saysDrops = "bodies deleted"
)

// TestUpgrade: a broker of today opens what each released version has left. Sealing begins by
// itself, a line at each start of the first day says how much the defaults will delete, and nothing
// is deleted on that day, also over a restart; then bodies are deleted, and events once there is a
// checkpoint of this version that is old enough. The state is the same throughout
// (docs/decisions/0061).
func TestUpgrade(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	for _, shape := range released {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := upgrade(t, shape)
				u.start()
				u.deleteOthers("orders")
				u.pass(30 * time.Minute)
				if !u.sealed() {
					t.Error("half an hour after the upgrade not all chapters are sealed that ended before it")
				}
				u.wantNothingGone(1)
				had := u.bodies()
				u.end()
				u.start()
				u.pass(23*time.Hour + 20*time.Minute)
				u.wantNothingGone(2)
				if now := u.bodies(); now != had {
					t.Errorf("%d bytes of bodies are left of %d", now, had)
				}
				u.pass(time.Hour)
				if cut := len(u.cuts) > 0; cut != checkpointsOfToday(shape) {
					t.Errorf("a day after the upgrade events were cut: %v\n%s", cut, u.said.text.String())
				}
				if now := u.bodies(); now >= had || u.said.count(saysDrops) == 0 {
					t.Errorf("a day after the upgrade %d bytes of bodies are left of %d\n%s", now, had, u.said.text.String())
				}
				u.pass(7 * 24 * time.Hour)
				if len(u.cuts) == 0 || u.said.count(saysGiven) == 0 {
					t.Errorf("a week after the upgrade all events are there\n%s", u.said.text.String())
				}
				if list := u.forcedCuts(); len(list) != 0 {
					t.Errorf("what policies let go is said to have gone before its time: %+v", list)
				}
				u.end()
				u.start()
				u.end()
			})
		})
	}
}

// wantNothingGone checks that all history is there, and that each of some starts has said how much
// will be deleted.
func (u *upgradedBroker) wantNothingGone(starts int) {
	u.t.Helper()
	if n := u.said.count(saysLater); n != starts || u.said.count("after="+u.upgradedAt().Add(24*time.Hour).UTC().Format("2006-01-02T15:04")) != starts {
		u.t.Errorf("said %d times in %d starts how much will go:\n%s", n, starts, u.said.text.String())
	}
	if len(u.cuts) > 0 || u.said.count(saysGiven)+u.said.count(saysDrops) > 0 {
		u.t.Errorf("history is gone within a day\n%s", u.said.text.String())
	}
}

func (u *upgradedBroker) upgradedAt() time.Time { return u.HistoryPolicies().Since.Std() }

// TestUpgradeNamed: a setting of how long something is kept applies at once, also to history from
// before the upgrade; so does a policy of a pattern. History without a setting stays for the day.
func TestUpgradeNamed(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	named := event.HistoryPolicy{Events: event.KeepFor(24 * time.Hour), Bodies: event.KeepFor(time.Hour), Undo: event.KeepNone}
	for _, shape := range someReleased {
		for _, how := range []string{"setting", "pattern", "bodies alone"} {
			t.Run(shape+", "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					u := upgrade(t, shape)
					switch how {
					case "setting":
						u.history = engine.PutHistoryPolicy{Policy: named}
					case "bodies alone":
						u.history = engine.PutHistoryPolicy{Policy: event.HistoryPolicy{Bodies: named.Bodies, Undo: named.Undo}}
					}
					u.start()
					had := u.bodies()
					if how == "pattern" {
						if err := u.PutHistoryPolicy(t.Context(), engine.PutHistoryPolicy{Pattern: "*", Policy: named}); err != nil {
							t.Fatal(err)
						}
					}
					u.deleteOthers("orders")
					u.pass(2 * time.Hour)
					if now := u.bodies(); now >= had {
						t.Errorf("%d bytes of bodies are left of %d\n%s", now, had, u.said.text.String())
					}
					if how == "setting" && u.said.count(saysLater) > 0 || u.said.count(saysNow) != 1 {
						t.Errorf("said at the start:\n%s", u.said.text.String())
					}
					if old := checkpointsOfToday(shape); how != "bodies alone" && old == (len(u.cuts) == 0) || how == "bodies alone" && len(u.cuts) > 0 {
						t.Errorf("checkpoints of today: %v; cut: %v\n%s", old, u.cuts, u.said.text.String())
					}
					u.end()
				})
			})
		}
	}
}

// checkpointsOfToday reports whether the version that wrote a shape had today's encoding of states:
// a base can only be made of that.
func checkpointsOfToday(shape string) bool {
	return slices.Contains([]string{"payload-5", "moves", "sealed"}, shape)
}

// TestUpgradeLow: while the disk has little room, chapters are sealed at once and history is
// deleted before a send is refused, also history from before the upgrade and in its first day. The
// log records it with an event for each partition, and why. With history-before-sends nothing is
// deleted.
func TestUpgradeLow(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	for _, shape := range someReleased {
		for _, before := range []bool{false, true} {
			t.Run(shape, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					u := upgrade(t, shape)
					if before {
						u.history.BeforeSends = engine.BeforeSendsYes
					}
					u.start()
					u.sleep(time.Minute)
					u.end() // with a checkpoint of this version
					u.start()
					u.sleep(time.Minute)
					u.wantNothingGone(2)
					u.disk.has(2*upgradeLow - 1)
					u.sleep(2 * time.Minute)
					u.wantHurry(true)
					u.disk.has(upgradeDisk / 2)
					u.sleep(2 * time.Minute)
					u.wantHurry(false)
					if before {
						u.wantNothingGone(2)
						u.end()
						return
					}
					facts := u.forcedCuts()
					if len(u.cuts) == 0 || len(facts) != len(u.cuts) {
						t.Errorf("%d cuts, %d events of them\n%s", len(u.cuts), len(facts), u.said.text.String())
					}
					for _, f := range facts {
						first, _ := (*u.slots[f.LogPartition].log.Load()).Bounds()
						if f.Cause != event.CutForRoom || f.First > first || f.Bytes == 0 {
							t.Errorf("%+v", f)
						}
					}
					if u.said.count("the disk has little room") == 0 {
						t.Errorf("the broker did not say why:\n%s", u.said.text.String())
					}
					u.end()
				})
			})
		}
	}
}

// wantHurry checks whether chapters are sealed as soon as they have ended, and a checkpoint is made
// after each.
func (u *upgradedBroker) wantHurry(is bool) {
	u.t.Helper()
	if is && !u.sealed() {
		u.t.Error("a chapter that has ended is not sealed, although there is a hurry")
	}
	for i := range u.slots {
		l := u.loop(engine.PartitionID(i))
		wish := l.WishCheckpoints(0)
		l.WishCheckpoints(wish)
		if (wish == hurryBytes) != is {
			u.t.Errorf("partition %d makes a checkpoint every %d bytes; in a hurry: %v", i, wish, is)
		}
	}
}

// unpack extracts a directory onto a disk in memory.
func unpack(t *testing.T, file string) *faultfs.FS {
	t.Helper()
	disk := faultfs.New()
	// directories without a file are not in the archive
	for _, id := range []string{"00", "01", "02", "03"} {
		for _, sub := range []string{"wal", "checkpoints"} {
			mkdirs(t, disk, path.Join(upgradeDir, "partitions", id, sub))
		}
	}
	for name, p := range archive.Files(t, file) {
		name = path.Join(upgradeDir, name)
		mkdirs(t, disk, path.Dir(name))
		if err := disk.WriteFile(name, p); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

// mkdirs makes a directory, and those above it.
func mkdirs(t *testing.T, disk *faultfs.FS, dir string) {
	t.Helper()
	if dir == "/" {
		return
	}
	mkdirs(t, disk, path.Dir(dir))
	if _, err := disk.Stat(dir); err == nil {
		return
	}
	if err := errors.Join(disk.Mkdir(dir), disk.SyncDir(path.Dir(dir))); err != nil {
		t.Fatal(err)
	}
}
