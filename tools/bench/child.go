package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/Azure/go-amqp"
)

// A child is a server in a separate process, so that its CPU time and memory can be measured
// separately.
type child struct {
	cmd    *exec.Cmd
	output *childOutput
	target Target
	began  time.Time     // before the process was started
	ended  chan struct{} // closed when the process has ended
	err    error         // result of the process; written before ended is closed
}

// start starts the process and watches for its end.
func (c *child) start() error {
	c.began, c.ended = time.Now(), make(chan struct{})
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop stops the process and waits for it.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-c.ended
	if c.err != nil {
		return fmt.Errorf("bench: %s: %w%s", filepath.Base(c.cmd.Path), c.err, c.output.tail())
	}
	return nil
}

// kill ends the process like a crash.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // may have ended
	<-c.ended
}

// startFloorChild runs this program's floor server with additional arguments.
func startFloorChild(ctx context.Context, size int, more ...string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"floor", "--size", strconv.Itoa(size)}, more...)
	c := &child{cmd: exec.CommandContext(ctx, program, args...), output: &childOutput{}}
	c.cmd.Stderr = c.output
	stdout, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	c.cmd.Stdout = in
	err = c.start()
	in.Close()
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		c.kill()
		return nil, fmt.Errorf("bench: the floor server did not start: %w%s", err, c.output.tail())
	}
	c.target = Target{URL: strings.TrimSpace(line), Queue: "bench"}
	return c, nil
}

// A broker starts the broker repeatedly on the same data directory and port.
type broker struct {
	program string
	dir     string // contains the data directory and the entity file
	port    int
	env     []string // added to this process's environment
}

// newBroker prepares a broker with the entities of a file in a new directory.
func newBroker(program, parent string, entities *entityFile) (*broker, error) {
	dir, err := os.MkdirTemp(parent, "ledgerbench-")
	if err != nil {
		return nil, err
	}
	if err := entities.write(filepath.Join(dir, "entities.json")); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return &broker{program: program, dir: dir, port: l.Addr().(*net.TCPAddr).Port}, nil
}

func (b *broker) remove() error { return os.RemoveAll(b.dir) }

// The key of every broker in development mode.
const (
	developmentKeyName = "RootManageSharedAccessKey"
	developmentKey     = "SAS_KEY_VALUE"
)

// start runs the broker and does not wait until it is ready.
func (b *broker) start(ctx context.Context) (*child, error) {
	c := &child{
		cmd: exec.CommandContext(ctx, b.program, "serve", "--data", filepath.Join(b.dir, "data"), "--entities",
			filepath.Join(b.dir, "entities.json"), "--listen", "127.0.0.1:"+strconv.Itoa(b.port), "--log-level", "warn"),
		output: &childOutput{},
		target: Target{
			ConnectionString: fmt.Sprintf("Endpoint=sb://127.0.0.1:%d;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true",
				b.port, developmentKeyName, developmentKey),
			Queue: brokerQueue,
		},
	}
	c.cmd.Stdout, c.cmd.Stderr = io.Discard, c.output
	c.cmd.Env = append(os.Environ(), b.env...)
	if err := c.start(); err != nil {
		return nil, err
	}
	return c, nil
}

// startReady runs the broker and waits until it accepts messages.
func (b *broker) startReady(ctx context.Context) (*child, error) {
	c, err := b.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// startBroker starts a broker with one large queue. end kills it and removes its directory.
func (s *suite) startBroker(ctx context.Context) (c *child, end func(), err error) {
	b, err := newBroker(s.Program, s.Dir, &entityFile{Queues: []entityEntry{largeQueue()}})
	if err != nil {
		return nil, nil, err
	}
	if c, err = b.startReady(ctx); err != nil {
		b.remove()
		return nil, nil, err
	}
	return c, func() { c.kill(); b.remove() }, nil
}

// checkpoints returns the files that make a restart faster.
func (b *broker) checkpoints() []string {
	// the pattern is valid
	files, _ := filepath.Glob(filepath.Join(b.dir, "data", "partitions", "*", "checkpoints", "*"))
	return files
}

const (
	startPatience = 10 * time.Minute
	startPoll     = 2 * time.Millisecond
)

// ready waits until the queue of a newly started server accepts a sender.
func (c *child) ready(ctx context.Context) error {
	return c.poll(ctx, func(ctx context.Context, s *amqp.Session) error {
		_, err := s.NewSender(ctx, c.target.Queue, nil)
		return err
	})
}

// firstMessage waits until a newly started server has delivered a message, and completes it.
func (c *child) firstMessage(ctx context.Context) error {
	return c.poll(ctx, func(ctx context.Context, s *amqp.Session) error {
		r, err := s.NewReceiver(ctx, c.target.Queue, &amqp.ReceiverOptions{Credit: 1, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
		if err != nil {
			return err
		}
		m, err := r.Receive(ctx, nil)
		if err != nil {
			return err
		}
		return r.AcceptMessage(ctx, m)
	})
}

func (c *child) poll(ctx context.Context, try func(context.Context, *amqp.Session) error) error {
	e, err := c.target.endpoint()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := func() error {
			conn, err := e.dial(ctx, false)
			if err != nil {
				return err
			}
			defer conn.Close()
			s, err := conn.Conn().NewSession(ctx, nil)
			if err != nil {
				return err
			}
			return try(ctx, s)
		}()
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("bench: the server has ended: %v%s", c.err, c.output.tail())
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(startPoll):
		}
	}
}

// A childOutput keeps the end of a child's standard error, and the live heap of its last garbage
// collection, which the child reports there with GODEBUG=gctrace=1.
type childOutput struct {
	mu   sync.Mutex
	last []byte // guarded by mu
	part []byte // guarded by mu: a line without its end
	heap int64  // guarded by mu: bytes
}

var gcTrace = regexp.MustCompile(`^gc \d+ @.* \d+->\d+->(\d+) MB`)

// Write implements io.Writer.
func (o *childOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.part = append(o.part, p...)
	for {
		line, rest, ok := strings.Cut(string(o.part), "\n")
		if !ok {
			return len(p), nil
		}
		o.part = []byte(rest)
		if m := gcTrace.FindStringSubmatch(line); m != nil {
			mib, _ := strconv.ParseInt(m[1], 10, 64) // digits only
			o.heap = mib << 20
			continue
		}
		o.last = append(append(o.last, line...), '\n')
		o.last = o.last[max(0, len(o.last)-2000):]
	}
}

// liveHeap returns the number of bytes left by the last garbage collection; 0 if there was none.
func (o *childOutput) liveHeap() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heap
}

// tail returns the end of the output for an error text.
func (o *childOutput) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.last) == 0 {
		return ""
	}
	return "\n" + string(o.last)
}
