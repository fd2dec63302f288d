package attack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"golang.org/x/sys/unix"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// The size of the crowd in a short run and in a long one, and how much memory the broker is given
// in each, in bytes.
const (
	smallCrowd, largeCrowd   = 300, 5_000
	smallMemory, largeMemory = 256 << 20, 1 << 30
	// gathering is how long the peers may take to get in
	gathering = 5 * time.Minute
)

var peers = flag.Int("peers", 0, "of TestCrowd, with as much memory for each as in a long run; default: by the duration")

// crowd is peers that each take as much memory as they may: a quarter of them begin large messages
// and never end them, a quarter send beginnings of frames, a quarter send whole messages, and a
// quarter ask for messages. None of them reads.
var crowd = attack{name: "crowd", run: (*assault).crowd}

func (a *assault) crowd(ctx context.Context) {
	kinds := []crowdKind{{"unended", unended}, {"beginnings", beginnings}, {"floods", floods}, {"asks", asks}}
	var told stages
	go told.tell(ctx)
	var all sync.WaitGroup
	for n := range a.many {
		all.Go(func() {
			for ctx.Err() == nil {
				told.attempt(ctx, a.address, n, kinds[n%len(kinds)])
				pause(ctx, time.Second)
			}
		})
		pause(ctx, 6*time.Millisecond) // there may be 200 new ones a second
	}
	all.Wait()
}

// attempt is one connection of a peer, from its beginning until it is over.
func (s *stages) attempt(ctx context.Context, address string, n int, kind crowdKind) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := s.enter("dialling")
	p, err := attacker(ctx, n, address)
	if over(err); err != nil {
		return
	}
	defer p.Close()
	over = s.enter("waiting for its token's answer")
	err = p.login()
	if over(err); err != nil {
		return
	}
	p.deaf.Store(true)
	over = s.enter("in, " + kind.name)
	over(kind.act(p, ctx))
}

type crowdKind struct {
	name string
	// until the connection is over, for which the error is the reason, or ctx is
	act func(*peer, context.Context) error
}

// stages is what the peers of a crowd are doing, and how it ended for those that are done.
type stages struct {
	mu    sync.Mutex
	now   map[string]int
	ended map[string]int
}

// enter notes that a peer is at something, until over is called.
func (s *stages) enter(stage string) (over func(error)) {
	s.count(stage, 1, nil)
	return func(err error) { s.count(stage, -1, err) }
}

func (s *stages) count(stage string, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now, s.ended = map[string]int{}, map[string]int{}
	}
	s.now[stage] += n
	if err != nil {
		text := err.Error()
		if i := strings.LastIndex(text, ": "); i >= 0 {
			text = text[i+2:] // without the addresses
		}
		s.ended[stage+": "+text]++
	}
}

// tell writes what all are at, every fifteen seconds.
func (s *stages) tell(ctx context.Context) {
	for began := time.Now(); ctx.Err() == nil; pause(ctx, 15*time.Second) {
		s.mu.Lock()
		fmt.Printf("%3.0f s: at %v; ended %v\n", time.Since(began).Seconds(), s.now, s.ended)
		s.mu.Unlock()
	}
}

// heartbeat is a frame with nothing in it.
var heartbeat = []byte{0, 0, 0, 8, 2, 0, 0, 0}

// stay sends a little now and then, so that the peer is not taken for a silent one, until the
// connection or ctx is over.
func (p *peer) stay(ctx context.Context, little []byte) error {
	for ctx.Err() == nil {
		if _, err := p.Write(little); err != nil {
			return err
		}
		pause(ctx, 5*time.Second)
	}
	return nil
}

// unended begins a large message on each of many links.
func unended(p *peer, ctx context.Context) error {
	part := make([]byte, 60<<10)
	for handle := uint32(10); handle < 1000 && ctx.Err() == nil; handle++ {
		p.attach(0, handle, fmt.Sprint("sender-", handle), "attacked", amqp.RoleSender)
		for first := range 4 {
			t := &amqp.Transfer{Handle: handle, More: true}
			if first == 0 {
				t.DeliveryID, t.DeliveryTag = amqp.Some(handle), []byte{1}
			}
			p.write(0, t, part)
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	return p.stay(ctx, heartbeat)
}

// beginnings sends a frame but for its last bytes.
func beginnings(p *peer, ctx context.Context) error {
	p.attach(0, 10, "sender", "attacked", amqp.RoleSender)
	p.write(0, &amqp.Transfer{Handle: 10, DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte{1}}, make([]byte, 60<<10))
	p.out = p.out[:len(p.out)-2000]
	if err := p.flush(); err != nil {
		return err
	}
	return p.stay(ctx, []byte{0})
}

// floods sends as many large messages as its credit allows, on several links.
func floods(p *peer, ctx context.Context) error {
	message := amqp.AppendSection(nil, amqp.SectionData, make([]byte, 200<<10))
	for handle := uint32(10); handle < 14; handle++ {
		p.attach(0, handle, fmt.Sprint("sender-", handle), "full", amqp.RoleSender)
		for range 10 {
			p.transfer(0, handle, message)
			if err := p.flush(); err != nil {
				return err
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
	return p.stay(ctx, heartbeat)
}

// asks asks for all there is, as receivers do and with requests.
func asks(p *peer, ctx context.Context) error {
	for handle := uint32(10); handle < 20; handle++ {
		p.attach(0, handle, fmt.Sprint("receiver-", handle), "attacked", amqp.RoleReceiver)
	}
	p.manage("attacked")
	for range 100 {
		p.ask("peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1000)}})
	}
	if err := p.flush(); err != nil {
		return err
	}
	return p.stay(ctx, heartbeat)
}

// TestCrowd (F22): 5,000 peers, in a short run fewer, each take as much memory as they may and read
// nothing. Resident memory stays within the limit and a tenth of it; honest clients are served, and
// their large messages are answered.
func TestCrowd(t *testing.T) {
	size, limit := smallCrowd, int64(smallMemory)
	if *duration >= long {
		size, limit = largeCrowd, largeMemory
	}
	if *peers > 0 {
		size, limit = *peers, int64(*peers)*largeMemory/largeCrowd
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Max < uint64(size)+1500 {
		t.Skipf("%d connections need more descriptors than there may be: %d, %v", size, files.Max, err)
	}
	s := stage(t, binaryFor(t), crowd, gathering+*duration,
		"--memory-limit", fmt.Sprint(limit), "--limits-connections", fmt.Sprint(size+100))
	s.many, s.honest.disturbed = size, true
	s.fill("attacked", 200, 100<<10)
	s.honest.workers.Go(func() { s.honest.large(t.Context()) })
	f := s.playWithin(crowd, limit+limit/10, size*9/10, *duration)
	said, _ := os.ReadFile(s.process.Stderr())
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "memory") && !strings.Contains(line, "servicebus:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	h := s.honest
	t.Logf("memory %d MiB, peak %d of %d, %d descriptors; honest calls: p50 %s, p99 %s, max %s; with a new connection p99 %s; large sends: %d taken, %d refused as busy",
		f.before>>20, f.peak>>20, f.bound>>20, f.sockets, h.quantile(0.5, onLink...).Round(time.Microsecond), h.quantile(0.99, onLink...).Round(time.Microsecond),
		h.quantile(1, onLink...).Round(time.Microsecond), h.quantile(0.99, "connect and send").Round(time.Microsecond), len(h.calls["large"]), len(h.calls["large, busy"]))
	if f.peak > f.bound {
		t.Errorf("%d MiB of memory; the limit is %d", f.peak>>20, limit>>20)
	}
	if f.sockets < size*9/10 {
		t.Errorf("%d of %d peers got in within %s", f.sockets, size, gathering)
	}
	if len(h.calls["send"]) < 10 {
		t.Errorf("honest clients sent %d messages", len(h.calls["send"]))
	}
}

// fill sends large messages, one after the other.
func (s *scene) fill(entity string, count, size int) {
	s.Helper()
	client := s.honest.client()
	defer hangUp(client)
	sender, err := client.NewSender(entity, nil)
	for n := 0; err == nil && n < count; n++ {
		err = sender.SendMessage(s.Context(), &azservicebus.Message{Body: make([]byte, size)}, nil)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// playWithin is play for an attack that is bounded by a limit of the broker, and that lasts for a
// time from the moment when that many descriptors are open.
func (s *scene) playWithin(a attack, bound int64, sockets int, lasts time.Duration) (f figures) {
	s.Helper()
	f.before, f.bound = s.statusBytes("VmRSS:"), bound
	working, rest := context.WithCancel(context.Background())
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
	var gathered time.Time
	for done := false; !done; {
		select {
		case <-tick.C:
			f.peak = max(f.peak, s.statusBytes("VmRSS:"))
			if open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.PID())); err == nil {
				f.sockets = max(f.sockets, len(open))
			}
			if f.sockets < sockets {
				gathered = time.Now()
			} else if time.Since(gathered) > lasts {
				cancel()
			}
		case <-over:
			done = true
		}
	}
	rest()
	s.honest.over.Store(true)
	s.honest.workers.Wait()
	return f
}

// large sends messages that are too large for what is promised to a connection. They are taken, or
// refused as busy.
func (h *honest) large(ctx context.Context) {
	client, err := azservicebus.NewClientFromConnectionString(h.process.ConnectionString(), &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		panic(err) // of the connection string
	}
	defer hangUp(client)
	sender, err := client.NewSender("other", nil)
	if err != nil {
		h.tb.Error(err)
	}
	for ctx.Err() == nil && !h.over.Load() {
		within, cancel := context.WithTimeout(ctx, patience)
		began := time.Now()
		err := sender.SendMessage(within, &azservicebus.Message{Body: make([]byte, 200<<10)}, nil)
		cancel()
		what := "large"
		if refused := (*azservicebus.Error)(nil); err != nil && (errors.As(err, &refused) || strings.Contains(err.Error(), "server-busy")) {
			what = "large, busy"
		} else if err != nil {
			h.tb.Errorf("honest client: a large message: %v", err)
		}
		h.mu.Lock()
		h.calls[what] = append(h.calls[what], time.Since(began))
		h.mu.Unlock()
		pause(ctx, 100*time.Millisecond)
	}
}

// statusBytes is a line of what the system says of the broker's memory, in bytes; 0: it does not
// say.
func (s *scene) statusBytes(name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
