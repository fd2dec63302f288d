package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// stillDisk is a disk that can be stopped: then every call waits, except those that read or change
// nothing. It notes the calls.
type stillDisk struct {
	disk.FS
	mu     sync.Mutex
	goesOn chan struct{} // nil: the disk is not stopped
	calls  []string      // since it was stopped
}

func (s *stillDisk) stop() (goOn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goesOn, s.calls = make(chan struct{}), nil
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.goesOn)
		s.goesOn = nil
	}
}

func (s *stillDisk) call(op, name string) {
	s.mu.Lock()
	goesOn := s.goesOn
	if goesOn != nil {
		s.calls = append(s.calls, op+" "+name)
	}
	s.mu.Unlock()
	if goesOn != nil {
		<-goesOn
	}
}

func (s *stillDisk) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *stillDisk) file(op, name string, open func(string) (disk.File, error)) (disk.File, error) {
	s.call(op, name)
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return stillFile{f, name, s}, nil
}

func (s *stillDisk) Create(name string) (disk.File, error) {
	return s.file("create", name, s.FS.Create)
}
func (s *stillDisk) Open(name string) (disk.File, error) { return s.file("open", name, s.FS.Open) }
func (s *stillDisk) Edit(name string) (disk.File, error) { return s.file("edit", name, s.FS.Edit) }
func (s *stillDisk) ReadDir(name string) ([]disk.Entry, error) {
	s.call("list", name)
	return s.FS.ReadDir(name)
}
func (s *stillDisk) Mkdir(name string) error { s.call("mkdir", name); return s.FS.Mkdir(name) }
func (s *stillDisk) Rename(from, to string) error {
	s.call("rename", from)
	return s.FS.Rename(from, to)
}
func (s *stillDisk) Remove(name string) error  { s.call("remove", name); return s.FS.Remove(name) }
func (s *stillDisk) SyncDir(name string) error { s.call("sync", name); return s.FS.SyncDir(name) }
func (f stillFile) Truncate(size int64) error {
	f.s.call("cut", f.name)
	return f.File.Truncate(size)
}
func (f stillFile) Allocate(size int64) error {
	f.s.call("fill", f.name)
	return f.File.Allocate(size)
}
func (f stillFile) Sync() error                 { f.s.call("sync", f.name); return f.File.Sync() }
func (f stillFile) Datasync() error             { f.s.call("sync", f.name); return f.File.Datasync() }
func (f stillFile) Write(p []byte) (int, error) { f.s.call("write", f.name); return f.File.Write(p) }

type stillFile struct {
	disk.File
	name string
	s    *stillDisk
}

func (f stillFile) ReadAt(p []byte, off int64) (int, error) {
	f.s.call("read", f.name)
	return f.File.ReadAt(p, off)
}

func (f stillFile) WriteAt(p []byte, off int64) (int, error) {
	f.s.call("write", f.name)
	return f.File.WriteAt(p, off)
}

// discardBackup makes a backup that is not read, and returns how long the loops stopped until all
// could continue.
func (b *broker) discardBackup(t testing.TB) time.Duration {
	t.Helper()
	made, err := b.Backup(t.Context(), nil, event.ReasonGiven{})
	if err != nil {
		t.Error(err)
		return 0
	}
	defer made.Close()
	return made.(*backup).stood
}

// While loops and couriers are stopped for a backup, the broker only hands on their marks: no file
// is read, copied, made or synced, and no goroutine waits for the disk. Here the disk is stopped
// from before the marks on: in that time the loops have met and continued without any time passing,
// and all that the disk was asked is to take the frames with the marks, one in each log.
func TestBackupPauseWithoutDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions = 8
		files := &stillDisk{FS: disk.OS{}}
		b := openOver(t, files, t.TempDir(), partitions)
		defer b.close(t)
		b.queue(t, "to", testQueue())
		b.send(t, b.queue(t, "from", forwardTo("to")), 1000)
		b.discardBackup(t) // the directory has recorded what its first backup needs
		synctest.Wait()
		goOn := files.stop()
		stood := make(chan time.Duration)
		go func() { stood <- b.discardBackup(t) }()
		time.Sleep(500 * time.Millisecond) // each second logs record how far they are durable
		calls := files.called()
		goOn()
		if d := <-stood; d != 0 {
			t.Errorf("the loops stood still for %v while the disk did", d)
		}
		logs := map[string]int{}
		for _, call := range calls {
			name, writes := strings.CutPrefix(call, "write ")
			if _, after, in := strings.Cut(name, "/partitions/"); writes && in && strings.Contains(after, "/wal/") {
				logs[after[:2]]++
			} else {
				t.Errorf("meanwhile somebody wanted to %s", call)
			}
		}
		for i := range partitions {
			if n := logs[fmt.Sprintf("%02d", i)]; n != 1 {
				t.Errorf("log %d was written to %d times", i, n)
			}
		}
	})
}

// openOver opens a broker over a file system, without checkpoints and without a reserve.
func openOver(t *testing.T, files disk.FS, dir string, partitions int) *broker {
	t.Helper()
	store, err := log.Open(t.Context(), dir, log.Options{FS: files, Partitions: partitions, RoomBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, Options{Reread: rereads, CheckpointBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, store}
}

// If one loop does not arrive, the others and the couriers continue after 40 ms, at most: messages
// are still forwarded in that time, each in less than 50 ms.
func TestBackupPauseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := openOver(t, faultfs.New(), "/data", 3)
		defer b.close(t)
		var at [3]engine.Target
		for i := 0; at[0].Entity == nil || at[1].Entity == nil || at[2].Entity == nil; i++ {
			q := b.queue(t, fmt.Sprintf("queue-%d", i), testQueue())
			at[q.Host(0)] = q
		}
		from, to, late := at[0], at[1], at[2]
		b.queue(t, from.Entity.Path, forwardTo(to.Entity.Path))
		_, got := b.receiver(to, 1, 1000)
		for range 4 {
			slow := &slowSink{make(chan struct{}), make(chan struct{})}
			b.Submit(late.Host(0), []engine.Request{{Command: loop.Ping(), Sink: slow}})
			<-slow.entered
			made := make(chan time.Duration)
			go func() { made <- b.discardBackup(t) }()
			var most time.Duration
			for n := range 100 {
				began := time.Now()
				if err := b.sendOne(from, n); err != nil {
					t.Fatal(err)
				}
				got.wait(1)
				most = max(most, time.Since(began))
				time.Sleep(time.Millisecond)
			}
			close(slow.leave)
			if stood := <-made; stood != 0 {
				t.Errorf("when all had come, they stood still for %v", stood)
			}
			if most < markTime/2 || most >= 50*time.Millisecond {
				t.Errorf("a message was on its way for %v, of those that went while a loop was missing", most)
			}
		}
	})
}

// BenchmarkBackupPause measures how long loops and couriers stop for a backup of 64 logs while more
// than 10,000 messages are on their way from log to log: 20 backups, each started when there are
// that many. The senders leave no processor idle, so that the loops, which could all continue at
// once, wait for one another.
func BenchmarkBackupPause(b *testing.B) {
	const partitions, backups, least = 64, 20, 10_000
	for range b.N {
		store, err := log.Open(context.Background(), b.TempDir(), log.Options{Partitions: partitions})
		if err != nil {
			b.Fatal(err)
		}
		n, err := Open(context.Background(), store, Options{Reread: rereads})
		if err != nil {
			b.Fatal(err)
		}
		br := &broker{n, store}
		p := testQueue()
		p.MaxSizeMegabytes = 80 << 10
		var from []engine.Target
		var of []*engine.Entity
		for i := range partitions { // their logs have the same names
			br.queue(b, fmt.Sprintf("to-%d", i), p)
			source := p
			source.ForwardTo = fmt.Sprintf("to-%d", i)
			q := br.queue(b, fmt.Sprintf("from-%d", i), source)
			from, of = append(from, q), append(of, q.Entity)
		}
		ctx, stop := context.WithCancel(context.Background())
		var senders sync.WaitGroup
		for _, q := range from {
			senders.Go(func() { br.pump(ctx, b, q) })
		}
		var stood []time.Duration
		var moving []int
		for len(stood) < backups {
			all, err := br.Runtime(ctx, of)
			if err != nil {
				b.Fatal(err)
			}
			moves := 0
			for _, r := range all {
				moves += r.Transfer
			}
			if moves >= least {
				stood, moving = append(stood, br.discardBackup(b)), append(moving, moves)
			}
		}
		stop()
		senders.Wait()
		slices.Sort(stood)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.ReportMetric(ms(stood[len(stood)/2]), "ms-median")
		b.ReportMetric(ms(stood[len(stood)-1]), "ms-most")
		b.ReportMetric(float64(slices.Min(moving)), "moves-least")
		b.ReportMetric(float64(slices.Max(moving)), "moves-most")
		if most := stood[len(stood)-1]; most >= 50*time.Millisecond {
			b.Errorf("loops stood still for %v", most)
		}
		br.close(b)
	}
}

// pump sends messages of 1 KiB to a queue, 250 at a time, until the context ends.
func (b *broker) pump(ctx context.Context, t testing.TB, q engine.Target) {
	in := newInbox()
	for n := 0; ctx.Err() == nil; {
		cmd := &engine.Send{Entity: q.Entity, Slice: q.Slice(0)}
		for range 250 {
			cmd.Messages = append(cmd.Messages, engine.Message{ID: fmt.Appendf(nil, "%016d", n), Body: fmt.Appendf(nil, "%01000d", n)})
			n++
		}
		b.Submit(q.Host(0), []engine.Request{{Command: cmd, Sink: in}})
		if r := in.wait(1)[0]; r.Err != nil {
			t.Error(r.Err)
			return
		}
	}
}
