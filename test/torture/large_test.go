package torture

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

var megabytes = flag.Int("megabytes", 40, "size of the messages of TestLargeMessages")

// TestLargeMessages (SM-397) takes messages of the premium tier through their life, with an SDK:
// over kills, peeked, deferred, dead-lettered, forwarded, published, in sealed files, read again by
// the scrubber, backed up and exported. How much memory the broker had in each part is logged.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	l := &large{user: &user{T: t}, binary: harness.Build(t, dir), body: make([]byte, *megabytes<<20-64<<10)}
	l.process = harness.NewProcess(l.binary, data, "--tier", "premium", "--seal-after", "0s", "--log-level", "warn")
	defer func() { _ = l.process.Kill() }()
	_, _ = rand.NewChaCha8([32]byte{1}).Read(l.body)
	l.start()
	l.entities()

	l.step("send")
	l.sendLarge("large")
	l.sendLarge("large")
	l.killAll()
	l.step("peek")
	r, err := l.client.NewReceiverForQueue("large", nil)
	l.must(err)
	l.peek(r, 2)
	l.step("defer")
	m := l.take(r)
	l.must(r.DeferMessage(t.Context(), m, nil))
	deferred, err := r.ReceiveDeferredMessages(t.Context(), []int64{*m.SequenceNumber}, nil)
	l.must(err)
	l.want(deferred[0])
	l.step("dead-letter")
	l.must(r.DeadLetterMessage(t.Context(), deferred[0], nil))
	l.finish(l.client.NewReceiverForQueue("large", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
	l.step("forward")
	l.sendLarge("from")
	l.finish(l.client.NewReceiverForQueue("to", nil))
	l.step("publish")
	l.sendLarge("news")
	for _, name := range []string{"a", "b", "c"} {
		l.finish(l.client.NewReceiverForSubscription("news", name, nil))
	}

	l.step("seal")
	l.sealed(data)
	l.step("back up")
	copied := filepath.Join(dir, "copy")
	l.command("backup", "--into", copied, "--connection-string", l.process.ConnectionString())
	l.step("")
	l.command("log", "verify", copied)
	l.command("log", "export", copied, "--into", filepath.Join(dir, "out"), "--format", "jsonl", "--bodies")
	l.must(l.process.Stop())
	l.scrub(data)
	l.killAll()
	l.step("receive")
	l.finish(l.client.NewReceiverForQueue("large", nil))
	l.step("")
	l.must(l.process.Stop())
}

// entities makes the queues and topics of the test.
func (l *large) entities() {
	l.Helper()
	most, to := int64(102400), "to"
	for _, name := range []string{"large", "to", "from"} {
		p := &admin.QueueProperties{MaxMessageSizeInKilobytes: &most}
		if name == "from" {
			p.ForwardTo = &to
		}
		_, err := l.admin.CreateQueue(l.Context(), name, &admin.CreateQueueOptions{Properties: p})
		l.must(err)
	}
	_, err := l.admin.CreateTopic(l.Context(), "news", &admin.CreateTopicOptions{Properties: &admin.TopicProperties{MaxMessageSizeInKilobytes: &most}})
	l.must(err)
	for _, name := range []string{"a", "b", "c"} {
		_, err = l.admin.CreateSubscription(l.Context(), "news", name, nil)
		l.must(err)
	}
}

// killAll kills the broker, if it runs, and starts it. The client is a new one: the old one waits
// before it connects again.
func (l *large) killAll() {
	l.Helper()
	l.client = nil
	l.kill()
}

// scrub reads all that nobody writes any more again, and wants no damage.
func (l *large) scrub(data string) {
	l.Helper()
	store, err := log.Open(l.Context(), data, log.Options{})
	l.must(err)
	for _, id := range store.Partitions() {
		part, err := store.Open(l.Context(), id)
		l.must(err)
		for over := false; !over; {
			var found []log.Damage
			if found, over, err = part.(log.Scrubber).Scrub(l.Context()); err != nil || found != nil {
				l.Fatalf("partition %d: %v, %v", id, found, err)
			}
		}
	}
	l.must(store.Close())
}

// large is a program that works with large messages of one body.
type large struct {
	*user
	binary string
	body   []byte
	began  time.Time
	name   string
}

// step notes how long the step before took, and how much memory the broker has had.
func (l *large) step(name string) {
	l.Helper()
	if l.name != "" {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.process.PID()))
		l.Logf("%s: %s, %s", l.name, time.Since(l.began).Round(time.Millisecond), regexp.MustCompile(`VmHWM.*`).Find(status))
	}
	l.name, l.began = name, time.Now()
}

func (l *large) sendLarge(entity string) {
	l.Helper()
	s, err := l.client.NewSender(entity, nil)
	l.must(err)
	l.must(s.SendMessage(l.Context(), &azservicebus.Message{Body: l.body}, nil))
	l.must(s.Close(l.Context()))
}

func (l *large) want(m *azservicebus.ReceivedMessage) {
	l.Helper()
	if sha256.Sum256(m.Body) != sha256.Sum256(l.body) {
		l.Fatalf("a message of %d bytes is not the one that was sent", len(m.Body))
	}
}

// take receives a message that must be the one that was sent.
func (l *large) take(r *azservicebus.Receiver) *azservicebus.ReceivedMessage {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 2*time.Minute)
	defer cancel()
	messages, err := r.ReceiveMessages(ctx, 1, nil)
	l.must(err)
	l.want(messages[0])
	return messages[0]
}

// finish receives a message with a receiver of its own and completes it.
func (l *large) finish(r *azservicebus.Receiver, err error) {
	l.Helper()
	l.must(err)
	l.must(r.CompleteMessage(l.Context(), l.take(r), nil))
	l.must(r.Close(l.Context()))
}

// peek wants that many messages.
func (l *large) peek(r *azservicebus.Receiver, count int) {
	l.Helper()
	zero := int64(0)
	for from := &zero; count > 0; count-- {
		messages, err := r.PeekMessages(l.Context(), 1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: from})
		l.must(err)
		if len(messages) == 0 {
			l.Fatal("nothing is seen")
		}
		l.want(messages[0])
		next := *messages[0].SequenceNumber + 1
		from = &next
	}
}

// command runs the command line, which must end with 0.
func (l *large) command(args ...string) string {
	l.Helper()
	out, err := exec.CommandContext(l.Context(), l.binary, args...).CombinedOutput()
	if err != nil {
		l.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// sealed waits until a sealed file has one of the bodies.
func (l *large) sealed(data string) {
	l.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(data, "partitions", "*", "sealed", "*.lbs"))
		l.must(err)
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.Size() > int64(len(l.body)) {
				return
			}
		}
	}
	l.Fatal("no body is sealed")
}
