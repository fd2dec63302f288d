package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

const (
	massQueue    = "mass"
	massEntities = `{"UserConfig": {"Namespaces": [{"Name": "torture", "Queues": [{"Name": "mass", "Properties":
		{"DefaultMessageTimeToLive": "PT1S", "DeadLetteringOnMessageExpiration": true}}]}]}}`
	massMessages = 40_000
	massKills    = 4
	deadLetters  = "/$DeadLetterQueue"
)

// TestKillWhileExpiring (SM-112) kills the broker while it moves messages that have expired to the
// dead-letter queue, again and again. After every kill each message is in exactly one of the two
// places, and in the end all are dead letters.
func TestKillWhileExpiring(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	config := filepath.Join(dir, "entities.json")
	if err := os.WriteFile(config, []byte(massEntities), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.NewProcess(harness.Build(t, dir), filepath.Join(dir, "data"), "--entities", config, "--log-level", "warn")
	defer func() { _ = p.Kill() }()
	m := &mover{T: t, ctx: ctx, process: p}
	m.start()
	m.send()
	time.Sleep(1100 * time.Millisecond) // nobody receives: they expire and stay

	amid := 0
	for range massKills {
		m.expire()
		for len(m.peek(deadLetters, m.last+1, 1)) == 0 { // until more have been moved
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		m.start()
		alive, dead := m.places()
		if alive > 0 && dead > 0 {
			amid++
		}
		if alive == 0 {
			break // all had been moved when the kill came
		}
	}
	if t.Logf("%d of %d kills came while messages were being moved", amid, massKills); amid == 0 {
		t.Error("this run does not count")
	}
	m.expire()
	for len(m.peek("", 0, 1)) > 0 {
	}
	if alive, dead := m.places(); alive != 0 || dead != massMessages {
		t.Errorf("in the end %d messages and %d dead letters", alive, dead)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// mover is a client of the broker whose messages expire.
type mover struct {
	*testing.T
	ctx     context.Context
	process *harness.Process
	client  *client.Client
	last    int64 // highest number in the dead-letter queue
}

func (m *mover) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *mover) start() {
	m.Helper()
	_, err := m.process.Start()
	m.must(err)
	cs, err := client.ParseConnectionString(m.process.ConnectionString())
	m.must(err)
	m.client, err = client.Dial(m.ctx, cs, client.Options{})
	m.must(err)
}

func (m *mover) send() {
	m.Helper()
	s, err := m.client.NewSender(m.ctx, massQueue)
	m.must(err)
	for i := 0; i < massMessages; {
		b := s.NewBatch()
		for err := error(nil); i < massMessages; i++ {
			if err = b.Add(client.NewMessage(fmt.Append(nil, i))); errors.Is(err, client.ErrBatchFull) {
				break
			}
			m.must(err)
		}
		m.must(s.Send(m.ctx, b.Message()))
	}
}

// expire makes messages expire, by asking for some.
func (m *mover) expire() {
	m.Helper()
	r, err := m.client.NewReceiver(m.ctx, massQueue, client.PeekLock)
	m.must(err)
	m.must(r.Credit(1))
}

// peek looks at the queue, or at a sub-queue, and returns numbers by text.
func (m *mover) peek(sub string, from int64, count int) map[string]int64 {
	m.Helper()
	some, err := m.client.Peek(m.ctx, massQueue+sub, from, count)
	m.must(err)
	found := map[string]int64{}
	for _, one := range some {
		if sub != "" && one.ApplicationProperties["DeadLetterReason"] != "TTLExpiredException" {
			m.Errorf("dead-lettered because of %v", one.ApplicationProperties)
		}
		found[string(one.GetData())] = one.Annotations["x-opt-sequence-number"].(int64)
	}
	if len(found) != len(some) {
		m.Errorf("%d messages, %d different ones", len(some), len(found))
	}
	return found
}

// places looks at all there is and counts. Every message must be in one place, once.
func (m *mover) places() (alive, dead int) {
	m.Helper()
	seen := map[string]string{}
	for _, sub := range []string{"", deadLetters} {
		for from := int64(0); ; {
			some := m.peek(sub, from, 1000)
			if len(some) == 0 {
				break
			}
			for text, number := range some {
				if place, twice := seen[text]; twice {
					m.Errorf("message %s is in %s%s and in %s", text, massQueue, sub, place)
				}
				seen[text] = massQueue + sub
				from = max(from, number+1)
			}
			if sub != "" {
				dead += len(some)
				m.last = from - 1
			} else {
				alive += len(some)
			}
		}
	}
	if len(seen) != massMessages {
		m.Errorf("%d of %d messages are there", len(seen), massMessages)
	}
	return alive, dead
}
