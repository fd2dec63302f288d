package servicebus

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// spreadDeferred is spreadTokens with all of its messages deferred.
func (b *bench) spreadDeferred() *spreadTokens {
	b.Helper()
	s := b.spreadTokens()
	s.disposed(200, "", "defered", s.tokens("abcdefghijkl"))
	return s
}

// numbered asks for the deferred messages with some ids, by their numbers.
func (s *spreadTokens) numbered(mode uint32, ids string) amqp.Map {
	var list []any
	for i := range ids {
		list = append(list, s.at[ids[i]])
	}
	return byNumber(mode, list...)
}

// takes receives and deletes the messages with some ids, and expects only those of want, in that
// order, without locks, with that number of earlier deliveries.
func (s *spreadTokens) takes(before uint32, ids, want string) {
	s.b.Helper()
	got := ""
	for _, m := range openedMessages(s.b, s.managedWith(200, "", "receive-by-sequence-number", s.numbered(0, ids))) {
		if _, locked := m.annotations.Get(keyLockedUntil); locked || m.delivery != nil || m.body == "" || m.header.DeliveryCount.Value != before {
			s.b.Errorf("%+v; want a body, no lock and %d deliveries before", m, before)
		}
		got += m.properties.MessageID.(string)
	}
	if got != want {
		s.b.Errorf("%s are asked for and %q come, not %s", ids, got, want)
	}
}

// refuses has them refused.
func (s *spreadTokens) refuses(status int32, condition amqp.Symbol, ids string) {
	s.b.Helper()
	s.managedWith(status, condition, "receive-by-sequence-number", s.numbered(0, ids))
}

// failing makes the settlements of one message fail with an error, without effect.
func (s *spreadTokens) failing(id string, err error) {
	at := event.LockToken(s.of[id[0]]).Partition()
	s.b.broker.refuse(func(cmd engine.Command) error {
		if c, is := cmd.(*engine.Settle); is && c.Outcome == engine.Complete && c.Slice.Partition == at {
			return err
		}
		return nil
	})
}

// S4-16, SM-123, docs/decisions/0069: deferred messages of several partitions are received and
// deleted by one request, in the order asked for. One that is refused, since a message is not
// there, is locked or is asked for twice, has taken nothing and left no lock.
func TestReceiveAndDeleteDeferredOfSeveralPartitions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		s := b.spreadDeferred()
		s.managedWith(200, "", "receive-by-sequence-number", s.numbered(1, "c"))
		s.refuses(404, amqp.CondMessageNotFound, "abcd")
		s.refuses(404, amqp.CondMessageNotFound, "abda")
		s.takes(1, "kabl", "kabl")
		s.left("cdefghij")
		s.refuses(404, amqp.CondMessageNotFound, "dea")
		s.managedWith(404, amqp.CondMessageNotFound, "receive-by-sequence-number", s.numbered(1, "lk"))
		time.Sleep(time.Minute)
		s.takes(1, "jihgfedc"[:7], "jihgfed")
		s.left("c")
	})
}

// S4-16, docs/decisions/0069: a partition stops serving after all messages were locked. The answer
// has the messages deleted by then; the rest is deferred as before, without a lock, and in no
// answer. If nothing was deleted the request is refused. Messages with an unknown outcome are in no
// answer.
func TestReceiveAndDeleteDeferredWhileAPartitionGoes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		away bool // it is fenced, and not only said to be
	}{
		"a partition is busy": {err: engine.Refuse(engine.Busy, "away")}, "a lock has ended": {err: engine.Refuse(engine.LockLost, "lost")},
		"a log fails": {err: engine.ErrUnknown}, "an operator fences it": {away: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				s := b.spreadDeferred()
				one, two := s.on[0], s.on[1] // messages by log
				ids := one[:1] + two[:1] + one[1:2]
				if s.detach(2); c.away {
					s.fenceBetween(two[:1])
				} else {
					s.failing(two[:1], c.err)
				}
				s.takes(1, ids, one[:1])
				b.broker.refuse(nil)
				if c.away {
					s.refuses(503, amqp.CondServerBusy, two[:1]+one[1:2])
					if _, err := b.ns.RestartPartition(b.Context(), 1, nil, event.ReasonGiven{}); err != nil {
						t.Fatal(err)
					}
				}
				// the lock of a message that may be deleted is not released, nor one whose
				// partition does not serve
				if s.takes(1, one[1:2], one[1:2]); c.err == engine.ErrUnknown || c.away {
					s.refuses(404, amqp.CondMessageNotFound, two[:1])
					time.Sleep(31 * time.Second)
					s.takes(2, two[:1], two[:1])
				} else {
					s.takes(1, two[:1], two[:1])
				}
				left := []byte(one[2:] + two[1:])
				slices.Sort(left)
				s.left(string(left))
			})
		})
	}
}

// docs/decisions/0069: where the first partition fails, nothing was deleted: the refusal is passed
// on, and all is deferred as before.
func TestReceiveAndDeleteDeferredRefusedAtOnce(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		s := b.spreadDeferred()
		s.failing("a", engine.Refuse(engine.Busy, "away"))
		s.refuses(503, amqp.CondServerBusy, "abc")
		b.broker.refuse(nil)
		s.takes(1, "abc", "abc")
		s.failing("d", engine.ErrUnknown)
		s.request("m", operationPrefix+"receive-by-sequence-number", s.numbered(0, "def"))
		if d := expect[*amqp.Detach](s.peerConn); d.Error == nil || d.Error.Condition != amqp.CondDetachForced {
			t.Errorf("nobody knows what became of it, and the link ends with %v", d.Error)
		}
		b.broker.refuse(nil)
		s.left("defghijkl")
	})
}

// fenceBetween fences the log of a message when all messages are locked and the first one is about
// to be deleted, without waiting.
func (s *spreadTokens) fenceBetween(id string) {
	if !strings.Contains(s.on[1], id) {
		s.b.Fatalf("%s is not in log 1", id)
	}
	var once sync.Once
	s.b.broker.refuse(func(cmd engine.Command) error {
		if c, is := cmd.(*engine.Settle); is && c.Outcome == engine.Complete {
			once.Do(func() {
				fenced := make(chan error)
				go func() { fenced <- s.b.ns.FencePartition(s.b.Context(), 1, nil, event.ReasonGiven{Reason: "test"}) }()
				if err := <-fenced; err != nil {
					s.b.Error(err)
				}
			})
		}
		return nil
	})
}
