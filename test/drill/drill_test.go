package drill

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// incident is one thing that went wrong.
type incident struct {
	name    string
	options []harness.Option
	plant   func(*scene)
	finds   []found
}

// found is a command and what it has to say: regular expressions.
type found struct {
	typed string
	says  []string
}

// scene is a broker on which something goes wrong.
type scene struct {
	*testing.T
	broker *harness.Broker
	binary string
	client *client.Client
}

// types types a command line, as in a shell, whose quotes it knows.
func (s *scene) types(line string) (string, error) {
	cmd := exec.CommandContext(s.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(s.binary)+":"+os.Getenv("PATH"), "LEDGERBUS_CONNECTION_STRING="+s.broker.ConnectionString())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// script plants with commands, each of which must succeed.
func (s *scene) script(lines ...string) {
	s.Helper()
	for _, line := range lines {
		if out, err := s.types(line); err != nil {
			s.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// dial connects a consumer of our own, which takes as long over its work as a script wants.
func (s *scene) dial() {
	cs, err := client.ParseConnectionString(s.broker.ConnectionString())
	if err == nil {
		s.client, err = client.Dial(s.Context(), cs, client.Options{Product: "handler/1.0"})
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.client.Close() })
}

// works receives a message, works on it for that long, and completes it. It says whether that was
// accepted.
func (s *scene) works(queue string, takes time.Duration) error {
	r, err := s.client.NewReceiver(s.Context(), queue, client.PeekLock)
	if err == nil {
		err = r.Credit(1)
	}
	if err != nil {
		s.Fatal(err)
	}
	m, err := r.Receive(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	<-time.After(takes) // the work
	return errors.Join(r.Complete(s.Context(), m), r.Close(s.Context()))
}

// until waits until a command says something.
func (s *scene) until(line, want string) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		out, err := s.types(line)
		if err == nil && regexp.MustCompile(want).MatchString(out) {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%s does not say %s: %v\n%s", line, want, err, out)
		}
	}
}

const (
	instant = `\d{4}-\d\d-\d\dT[0-9:.]+Z`
	someone = `RootManageSharedAccessKey \(.*\) at 127\.0\.0\.1:\d+ `
)

var incidents = []incident{
	{
		name:    "locks are lost after a setting was changed",
		options: []harness.Option{harness.Queue("orders", harness.Lock(time.Minute), attempts(2))},
		plant: func(s *scene) {
			s.broker.Put("orders", harness.Lock(300*time.Millisecond), attempts(2))
			s.script("ledgerbus send orders --body x --message-id A-4711")
			s.dial()
			for range 2 {
				if s.works("orders", 500*time.Millisecond) == nil {
					s.Fatal("completed")
				}
			}
			s.until("ledgerbus why 'orders/$dlq'", "1 dead letter")
		},
		finds: []found{
			{"ledgerbus why 'orders/$dlq'", []string{`1 dead letter since .*, 1 cause`, `#1 1  max-delivery`, `locks lost after 300 ms; \d completes? came too late: the work was done, and repeated`,
				`shortly before: ` + instant + `.* changed orders: LockDuration 1m → 300ms`}},
			{"ledgerbus story 'orders#1'", []string{`sentence: the handler takes \d+ ms \(median of \d\), the lock lasts 300 ms since ` + instant + `, was 1m \(@0/\d+\): the work was done, and repeated`}},
		},
	},
	{
		name:    "a poison message",
		options: []harness.Option{harness.Queue("orders", attempts(2))},
		plant: func(s *scene) {
			s.script("ledgerbus send orders --body good", "ledgerbus receive orders --complete", "ledgerbus send orders --body bad --message-id A-4711", "ledgerbus receive orders --abandon", "ledgerbus receive orders --abandon")
		},
		finds: []found{
			{"ledgerbus why 'orders/$dlq'", []string{`#1 1  max-delivery.*returned 2 times  by ` + someone + `.*such as orders#2`}},
			{"ledgerbus story 'orders#2'", []string{`id A-4711, \d+ bytes · DEAD-LETTERED, 2 attempts`, `sentence: 2 attempts failed: 2 returned, 0 with a lost lock`}},
		},
	},
	{
		name:    "no consumer",
		options: []harness.Option{harness.Queue("orders"), harness.Queue("bills")},
		plant: func(s *scene) {
			s.script("ledgerbus send orders --body x", "ledgerbus receive orders --complete", "ledgerbus send orders --body y --count 3", "ledgerbus send bills --body z")
		},
		finds: []found{
			{"ledgerbus at now orders", []string{`orders +active 3 · dead 0`}},
			{"ledgerbus when 'orders.active > 2'", []string{`^first at ` + instant}},
			{"ledgerbus story 'orders#2'", []string{`sentence: it has not been received: the last receiver of orders left at ` + instant}},
			{"ledgerbus why 'bills#1'", []string{`sentence: it has not been received: history shows no receiver of bills`}},
		},
	},
	{
		name:    "a session that nobody accepts",
		options: []harness.Option{harness.Queue("carts", func(p *event.Properties) { p.RequiresSession = true })},
		plant: func(s *scene) {
			s.script("ledgerbus send carts --body x --session-id cart-7", "ledgerbus send carts --body y --session-id cart-8", "ledgerbus receive carts --session cart-8 --complete")
		},
		finds: []found{
			{"ledgerbus story 'carts#1'", []string{`sentence: it has not been received: it is in session cart-7, which no receiver has accepted; the last receiver of carts left at ` + instant}},
		},
	},
	{
		name:    "a wrong rule",
		options: []harness.Option{harness.Queue("orders")},
		plant: func(s *scene) {
			s.script("ledgerbus topic create weather", "ledgerbus subscription create weather storms", "ledgerbus rule create weather storms strong --sql \"wnd > 20\" --reason INC-12", "ledgerbus rule delete weather storms '$Default' --confirm '$Default'",
				"ledgerbus send weather --body x --message-id W-1 --property wind=int:30")
		},
		finds: []found{
			{"ledgerbus story --message-id W-1", []string{`· PUBLISHED`, `sentence: no subscription has it: no rule matched`}},
			{"ledgerbus audit weather", []string{`rule-added .*weather/Subscriptions/storms  rule strong: "wnd > 20"  .*because "INC-12"`, `rule-removed .*rule \$Default`}},
		},
	},
	{
		name: "duplicate ids",
		options: []harness.Option{harness.Queue("orders", func(p *event.Properties) {
			p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, 10*time.Minute
		})},
		plant: func(s *scene) {
			s.script("ledgerbus send orders --body first --message-id A-1", "ledgerbus send orders --body second --message-id A-1", "ledgerbus send orders --body third --message-id A-1")
		},
		finds: []found{
			{"ledgerbus story --message-id A-1", []string{`duplicate +.*id A-1 is that of orders#1`, `sentence: .*2 later messages with its id were dropped as duplicates`}},
			{"ledgerbus events orders --where \"type = 'duplicate'\"", []string{`duplicate +orders`}},
		},
	},
	{
		name: "time to live",
		options: []harness.Option{harness.Queue("orders", func(p *event.Properties) {
			p.DefaultMessageTimeToLive, p.DeadLetteringOnMessageExpiration = 200*time.Millisecond, true
		}), harness.Queue("bills", func(p *event.Properties) { p.DefaultMessageTimeToLive = 200 * time.Millisecond })},
		plant: func(s *scene) {
			s.script("ledgerbus send orders --body x --count 2", "ledgerbus send bills --body x")
			<-time.After(300 * time.Millisecond)
			for _, queue := range []string{"orders", "bills"} {
				// a receiver that comes too late finds nothing
				_, _ = s.types("ledgerbus receive " + queue + " --wait 500ms")
			}
			s.until("ledgerbus why 'orders/$dlq'", "2 dead letters")
			s.until("ledgerbus story 'bills#1'", "EXPIRED")
		},
		finds: []found{
			{"ledgerbus why 'orders/$dlq'", []string{`#1 2  expired.*2 of them never received`}},
			{"ledgerbus story 'orders#1'", []string{`DEAD-LETTERED`, `sentence: its time to live ended before it was received`}},
			{"ledgerbus story 'bills#1'", []string{`sentence: its time to live ended before it was received, and expired messages of this entity are not kept`}},
		},
	},
	{
		name:    "a purge by mistake",
		options: []harness.Option{harness.Queue("orders")},
		plant: func(s *scene) {
			s.script("ledgerbus send orders --body x --count 3 --message-id A-7")
			s.dial()
			if _, err := s.client.Manage(s.Context(), "orders", "batch-delete-messages", map[string]any{"message-count": int32(100), "enqueued-time-utc": time.Now().Add(time.Hour)}); err != nil {
				s.Fatal(err)
			}
		},
		finds: []found{
			{"ledgerbus audit orders", []string{`purged +orders.*3 messages sent before ` + instant + `  ` + someone}},
			{"ledgerbus story 'orders#2'", []string{`· PURGED`, `sentence: it was purged at ` + instant + ` by ` + someone + `.*, with 3 messages sent before`}},
			{"ledgerbus when 'orders.messages > 2'", []string{`^first at ` + instant}},
		},
	},
	{
		name:    "a clock",
		options: []harness.Option{ahead, harness.Queue("orders")},
		plant:   func(s *scene) { s.script("ledgerbus send orders --body x") },
		finds: []found{
			{"ledgerbus audit", []string{`clock-set .*` + instant + ` to ` + instant + `, by `}},
			{"ledgerbus at now old", []string{`old +active 1`}},
		},
	},
	{
		name:    "a full disk",
		options: []harness.Option{harness.Queue("orders")},
		plant: func(s *scene) {
			s.script("ledgerbus send orders --body x")
			s.broker.Stop()
			// more than any disk has free
			s.broker.Set(func(st *settings.Settings) { st.Storage.Low = 1 << 60 })
			s.broker.Start()
			if out, err := s.types("ledgerbus send orders --body y"); err == nil {
				s.Fatalf("sent: %s", out)
			}
			s.until("ledgerbus events orders --where \"type = 'sends-refused'\"", "sends-refused")
		},
		finds: []found{
			{"ledgerbus events orders --where \"type = 'sends-refused'\"", []string{`sends-refused +orders  1 send: `}},
		},
	},
	{
		name:    "a slow consumer",
		options: []harness.Option{harness.Queue("orders")},
		plant: func(s *scene) {
			s.script("ledgerbus send orders --body x --count 3")
			s.dial()
			for range 2 {
				if err := s.works("orders", 400*time.Millisecond); err != nil {
					s.Fatal(err)
				}
			}
		},
		finds: []found{
			{"ledgerbus story 'orders#2'", []string{`sentence: it was completed .* with 1 attempt: it waited .* for a receiver, whose work took 4\d\d ms`}},
			{"ledgerbus at now orders", []string{`orders +active 1`}},
			{"ledgerbus when 'orders.active > 2'", []string{`^first at`}},
		},
	},
}

func attempts(n uint32) func(*event.Properties) {
	return func(p *event.Properties) { p.MaxDeliveryCount = n }
}

// ahead has the log of the broker end hours ahead of the clock of the machine, which the operator
// believes.
func ahead(s *settings.Settings) {
	s.Clock.Accept, s.Clock.Reason = host.AcceptWall, "its battery was empty"
}

// writeAhead writes a log that ends in three hours.
func writeAhead(t *testing.T, dir string) {
	d := logdir.Open(t, dir, log.Options{Partitions: 4})
	_, w := d.Lead(0)
	at := event.TimeOf(time.Now().Add(3 * time.Hour))
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	d.Append(w, at, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "old", HashVersion: 1, Hosts: []byte{0},
		Properties: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, MaxSizeMegabytes: 1024, DefaultMessageTimeToLive: event.Forever, AutoDeleteOnIdle: event.Forever}},
		&event.MessageEnqueued{Envelope: own, Sequence: 1, MessageID: []byte("a"), EnqueuedAt: at})
	d.Close()
}

// Each incident is found with the commands that docs/history.md has for it.
func TestIncidents(t *testing.T) {
	t.Parallel()
	binary := harness.Build(t, t.TempDir())
	guide, err := os.ReadFile("../../docs/history.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range incidents {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			options := in.options
			if in.name == "a clock" {
				data := filepath.Join(t.TempDir(), "data")
				writeAhead(t, data)
				options = append(options, func(s *settings.Settings) { s.Storage.Data = data })
			}
			s := &scene{T: t, broker: harness.Start(t, options...), binary: binary}
			in.plant(s)
			for _, f := range in.finds {
				out, err := s.types(f.typed)
				if err != nil {
					t.Errorf("%s: %v\n%s", f.typed, err, out)
				}
				for _, want := range f.says {
					if !regexp.MustCompile("(?m)" + want).MatchString(out) {
						t.Errorf("%s\ndoes not say %s:\n%s", f.typed, want, out)
					}
				}
				if !strings.Contains(string(guide), "`"+f.typed+"`") {
					t.Errorf("docs/history.md does not have %s", f.typed)
				}
			}
		})
	}
}
