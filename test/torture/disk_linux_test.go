package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"golang.org/x/sys/unix"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

// small is a broker whose data directory is on a file system of its own, and the books of what its
// clients were told.
type small struct {
	*testing.T
	process *harness.Process
	disk    string // where the file system is

	mu    sync.Mutex
	told  map[string]string // by message id: "ok", "busy" or "unknown"
	ended map[string]bool   // completed, and told so
	slow  time.Duration     // the longest call
}

// onSmall starts a broker on a file system that mount mounts at a directory. It skips the test
// where that is not possible.
func onSmall(t *testing.T, mount func(image, at string) error, flags ...string) *small {
	t.Helper()
	dir := t.TempDir()
	s := &small{T: t, disk: filepath.Join(dir, "disk"), told: map[string]string{}, ended: map[string]bool{}}
	if err := os.Mkdir(s.disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mount(filepath.Join(dir, "image"), s.disk); err != nil {
		t.Skipf("no file system of its own can be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(s.disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	// what the broker says goes beside it, and not to the small disk
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(filepath.Join(s.disk, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.disk, "data"), data); err != nil {
		t.Fatal(err)
	}
	s.process = harness.NewProcess(harness.Build(t, dir), data, append(flags, "--queue", "q")...)
	s.start()
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(data + ".stderr")
			t.Logf("the broker said:\n%s", text)
		}
		_ = s.process.Kill()
	})
	return s
}

func (s *small) start() {
	s.Helper()
	if _, err := s.process.Start(); err != nil {
		s.Fatal(err)
	}
}

// client tries everything once.
func (s *small) client() *azservicebus.Client {
	return (&load{t: s.T, address: s.process.ConnectionString()}).connect()
}

// produce sends until the context ends. Each call has its answer within a minute.
func (s *small) produce(ctx context.Context, name string) {
	for n := 0; ctx.Err() == nil; {
		client := s.client()
		sender, err := client.NewSender("q", nil)
		for err == nil && ctx.Err() == nil {
			n++
			id := fmt.Sprintf("%s-%d", name, n)
			began := time.Now()
			within, cancel := context.WithTimeout(context.Background(), time.Minute)
			err = sender.SendMessage(within, &azservicebus.Message{MessageID: &id, Body: make([]byte, 1000)}, nil)
			cancel()
			if time.Since(began) > 59*time.Second {
				s.Errorf("%s was not answered for a minute", id)
			}
			s.note(id, err, time.Since(began))
			time.Sleep(20 * time.Millisecond)
		}
		hangUp(client)
	}
}

// note writes down what a sender was told.
func (s *small) note(id string, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = max(s.slow, took)
	switch {
	case err == nil:
		s.told[id] = "ok"
	case strings.Contains(err.Error(), "server-busy"):
		s.told[id] = "busy"
	default:
		s.told[id] = "unknown"
	}
}

// count is the number of messages whose sender was told that.
func (s *small) count(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, was := range s.told {
		if was == what {
			n++
		}
	}
	return n
}

// complete settles that many messages, or all there are, and returns how many.
func (s *small) complete(most int) (n int) {
	s.Helper()
	client := s.client()
	defer hangUp(client)
	r, err := client.NewReceiverForQueue("q", nil)
	for err == nil && n < most {
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		var messages []*azservicebus.ReceivedMessage
		messages, err = r.ReceiveMessages(ctx, min(50, most-n), nil)
		cancel()
		for _, m := range messages {
			s.found(m.MessageID)
			within, cancel := context.WithTimeout(s.Context(), 30*time.Second)
			if err := r.CompleteMessage(within, m, nil); err != nil {
				s.Errorf("complete: %v", err)
			} else {
				s.mu.Lock()
				s.ended[m.MessageID] = true
				s.mu.Unlock()
			}
			cancel()
			n++
		}
	}
	return n
}

// found checks that a message may be there.
func (s *small) found(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended[id] {
		s.Errorf("%s was completed and is there again", id)
	}
	if was, sent := s.told[id]; was == "busy" {
		s.Errorf("%s was refused and is there", id)
	} else if !sent && s.told != nil {
		s.told[id] = "unknown" // it came before its sender was told
	}
}

// close kills the broker, starts it again and takes out what is left: nothing acknowledged is
// missing.
func (s *small) close() {
	s.Helper()
	if err := s.process.Kill(); err != nil {
		s.Fatal(err)
	}
	s.start()
	for s.complete(1000) > 0 {
	}
	for id, was := range s.told {
		if was == "ok" && !s.ended[id] {
			s.Errorf("%s was acknowledged and is lost", id)
		}
	}
	s.Logf("%d sends were taken, %d refused, %d unknown; %d completed; the longest call took %v", s.count("ok"), s.count("busy"), s.count("unknown"), len(s.ended), s.slow)
}

// states are the conditions that /health names, and whether it is healthy.
func (s *small) states() (states string, healthy bool) {
	s.Helper()
	response, err := http.Get("http://" + s.process.Address() + "/health")
	if err != nil {
		s.Fatalf("the broker does not answer: %v", err)
	}
	defer response.Body.Close()
	var answer struct{ Conditions []struct{ State string } }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		s.Fatal(err)
	}
	for _, c := range answer.Conditions {
		states += c.State + " "
	}
	return states, response.StatusCode == http.StatusOK
}

// until waits for a state, "" for none, and returns how long that took.
func (s *small) until(state string, within time.Duration) time.Duration {
	s.Helper()
	began := time.Now()
	for {
		is, healthy := s.states()
		if state != "" && strings.Contains(is, state) && !healthy || state == "" && healthy {
			return time.Since(began)
		}
		if time.Since(began) > within {
			s.Fatalf("after %v it is %q, not %q", within, is, state)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// others makes the file of others so large that only that much stays free. The broker is stopped
// meanwhile: it would give room from its reserve, and they would take that as well.
func (s *small) others(free int64) {
	s.Helper()
	signal := func(n unix.Signal) {
		if err := unix.Kill(s.process.PID(), n); err != nil {
			s.Fatal(err)
		}
	}
	signal(unix.SIGSTOP)
	defer signal(unix.SIGCONT)
	theirs := filepath.Join(s.disk, "theirs")
	f, err := os.OpenFile(theirs, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	for {
		var st unix.Statfs_t
		if err := unix.Statfs(s.disk, &st); err != nil {
			s.Fatal(err)
		}
		more := int64(st.Bavail)*st.Bsize - free
		if more < 4096 {
			return
		}
		if _, err := f.Write(make([]byte, min(more, 64<<10))); err != nil {
			return // somebody was faster
		}
	}
}

// TestFullDisk (SM-377, F8): a file of others fills the disk under load. No exit; settlements go
// on, a bounded number of them from the reserve; every client is answered, nothing acknowledged is
// lost and nothing refused is there; sends come back by themselves.
func TestFullDisk(t *testing.T) {
	s := onSmall(t, func(_, at string) error { return unix.Mount("tmpfs", at, "tmpfs", 0, "size=16m") },
		"--disk-reserve", fmt.Sprint(2<<20), "--disk-low", fmt.Sprint(4<<20))
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for n := range 4 {
		workers.Go(func() { s.produce(ctx, fmt.Sprint("p", n)) })
	}
	end := time.Now().Add(max(*duration, 8*time.Second))
	time.Sleep(2 * time.Second)
	s.until("", time.Second)
	s.others(3 << 20)
	t.Logf("low after %v", s.until("disk-low", 3*time.Second))
	taken := s.count("ok")
	if n := s.complete(50); n != 50 {
		t.Errorf("%d messages of 50 were completed while the disk is low", n)
	}
	s.others(0)
	t.Logf("critical after %v", s.until("disk-critical", 3*time.Second))
	for round := 0; round < 10 && !t.Failed(); round++ {
		if n := s.complete(5); n != 5 {
			t.Errorf("%d messages of 5 were completed from the reserve", n)
		}
		time.Sleep(time.Until(end) / time.Duration(10-round))
	}
	if is, healthy := s.states(); healthy || !strings.Contains(is, "disk-critical") {
		t.Errorf("in the end it is %q", is)
	}
	// those that were on their way when the disk was found low
	if more := s.count("ok") - taken; more > 20 {
		t.Errorf("%d sends were taken without room", more)
	}
	taken = s.count("ok")
	if err := os.Remove(filepath.Join(s.disk, "theirs")); err != nil {
		t.Fatal(err)
	}
	t.Logf("well again after %v", s.until("", 5*time.Second))
	time.Sleep(2 * time.Second)
	stop()
	workers.Wait()
	if s.count("ok") == taken || s.count("busy") == 0 {
		t.Error("sends did not come back, or were never refused")
	}
	s.close()
}

// TestQuota (SM-377, F8): as TestFullDisk, with a quota that the disk does not report: it says that
// most of it is free, and refuses to write.
func TestQuota(t *testing.T) {
	s := onSmall(t, mountQuota, "--disk-reserve", fmt.Sprint(2<<20), "--disk-low", fmt.Sprint(4<<20))
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for n := range 4 {
		workers.Go(func() { s.produce(ctx, fmt.Sprint("p", n)) })
	}
	end := time.Now().Add(max(*duration, 10*time.Second))
	time.Sleep(2 * time.Second)
	s.until("", time.Second)
	s.others(0) // as much as the quota lets them
	// the room in the last segment is used first
	t.Logf("critical after %v", s.until("disk-", time.Minute))
	for round := 0; round < 10 && !t.Failed(); round++ {
		if n := s.complete(5); n != 5 {
			t.Errorf("%d messages of 5 were completed from the reserve", n)
		}
		time.Sleep(time.Until(end) / time.Duration(10-round))
	}
	if is, healthy := s.states(); healthy {
		t.Errorf("in the end it is %q", is)
	}
	taken := s.count("ok")
	if err := os.Remove(filepath.Join(s.disk, "theirs")); err != nil {
		t.Fatal(err)
	}
	// the file system gives back what it has committed: every 30 s
	t.Logf("well again after %v", s.until("", 40*time.Second))
	time.Sleep(2 * time.Second)
	stop()
	workers.Wait()
	if s.count("ok") == taken || s.count("busy") == 0 {
		t.Error("sends did not come back, or were never refused")
	}
	s.close()
}

// mountQuota makes a file system in a file, with a quota on a part of it. It is btrfs, whose quotas
// hold for root as well, and need nothing of the kernel but itself.
func mountQuota(image, at string) error {
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		return err
	}
	for _, cmd := range [][]string{{"mkfs.btrfs", "-q", image}, {"mount", "-o", "loop", image, at}, {"btrfs", "quota", "enable", at},
		{"btrfs", "qgroup", "limit", fmt.Sprint(24 << 20), "0/5", at}} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			_ = unix.Unmount(at, unix.MNT_DETACH)
			return fmt.Errorf("%s: %w: %s", cmd[0], err, out)
		}
	}
	return nil
}

// mountLoop makes a file system in a file.
func mountLoop(image, at string) error {
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, 64<<20); err != nil {
		return err
	}
	for _, cmd := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, at}, {"fsfreeze", "--version"}} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd[0], err, out)
		}
	}
	return nil
}

// TestFrozenDisk (SM-003, F11): the file system is frozen under load. That is noticed within a
// second; new sends are refused, what is under way gets its true outcome in the end.
func TestFrozenDisk(t *testing.T) {
	s := onSmall(t, mountLoop, "--disk-low", fmt.Sprint(4<<20), "--disk-reserve", fmt.Sprint(2<<20))
	frozen := false
	thaw := func() {
		if frozen {
			frozen = false
			if out, err := exec.Command("fsfreeze", "-u", s.disk).CombinedOutput(); err != nil {
				t.Errorf("fsfreeze: %v: %s", err, out)
			}
		}
	}
	t.Cleanup(thaw)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer thaw()
	defer stop()
	for n := range 8 {
		workers.Go(func() { s.produce(ctx, fmt.Sprint("p", n)) })
	}
	time.Sleep(time.Second)
	// the guard is for when this process is killed
	guard := exec.Command("sh", "-c", `sleep 60; exec fsfreeze -u "$1"`, "sh", s.disk)
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = guard.Process.Kill(), guard.Wait() }()
	frozen = true
	if out, err := exec.Command("fsfreeze", "-f", s.disk).CombinedOutput(); err != nil {
		frozen = false
		t.Fatalf("fsfreeze: %v: %s", err, out)
	}
	took := s.until("disk-hangs", 2*time.Second)
	if t.Logf("noticed after %v", took); took > 1100*time.Millisecond {
		t.Errorf("noticed after %v", took)
	}
	time.Sleep(200 * time.Millisecond)
	taken, refused := s.count("ok"), s.count("busy")
	late := make(chan error, 1)
	go func() {
		sender, err := s.client().NewSender("q", nil)
		if err == nil {
			id := "late"
			err = sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id}, nil)
			s.note(id, err, 0)
		}
		late <- err
	}()
	select {
	case err := <-late:
		if err == nil || !strings.Contains(err.Error(), "server-busy") {
			t.Errorf("a new send is answered %v", err)
		}
	case <-time.After(2 * time.Second):
		t.Error("a new send is not answered while the disk hangs")
	}
	time.Sleep(min(max(*duration, 3*time.Second), 30*time.Second))
	if now := s.count("ok"); now != taken {
		t.Errorf("%d sends were acknowledged while the disk hung", now-taken)
	}
	thaw()
	t.Logf("well again after %v; %d refused before, %d at the end", s.until("", 5*time.Second), refused, s.count("busy"))
	time.Sleep(time.Second)
	if s.count("ok") <= taken {
		t.Error("sends did not come back")
	}
	stop()
	workers.Wait()
	s.close()
}
