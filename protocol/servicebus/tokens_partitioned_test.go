package servicebus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// spreadTokens is a peer that has locked twelve messages, a to l, of a partitioned queue on two
// logs.
type spreadTokens struct {
	*peerConn
	b  *bench
	of map[byte]amqp.UUID // token of each
	at map[byte]any       // sequence number of each
	on [2]string          // messages by log
}

func (b *bench) spreadTokens() *spreadTokens {
	b.Helper()
	b.queue("wide", partitioned(nil))
	e, ok := b.ns.Find("wide")
	if !ok {
		b.Fatal("there is no such queue")
	}
	for id := 'a'; id <= 'l'; id++ {
		b.put("wide", keyedMessage(string(id), "", ""))
	}
	s := &spreadTokens{peerConn: b.root(), b: b, of: map[byte]amqp.UUID{}, at: map[byte]any{}}
	s.attachReceiver(2, "wide", amqp.SenderUnsettled)
	s.attachManagement("wide")
	s.credit(2, 0, 12, false)
	partitions := map[uint8]bool{}
	for range 12 {
		m := s.receive()
		id, token := m.properties.MessageID.(string), uuidOf(m.tag)
		at := event.LockToken(token).Partition()
		s.of[id[0]], partitions[at] = token, true
		s.at[id[0]], _ = m.annotations.Get(keySequence)
		s.on[e.Hosts[at]] += id
	}
	if len(partitions) != 12 || len(s.on[0]) < 3 || len(s.on[1]) < 3 {
		b.Fatalf("the logs have %q, in %d partitions", s.on, len(partitions))
	}
	return s
}

// tokens are those of some messages, by the letters of their ids.
func (s *spreadTokens) tokens(ids string) (list []amqp.UUID) {
	for i := range ids {
		list = append(list, s.of[ids[i]])
	}
	return list
}

// left compares which messages there are, in order of their ids.
func (s *spreadTokens) left(want string) {
	s.b.Helper()
	got := strings.Split(strings.Trim(s.b.shown("wide"), "[]"), " ")
	slices.Sort(got)
	if strings.Join(got, "") != want {
		s.b.Fatalf("there are %q, not %s", got, want)
	}
}

// S4-16, SM-049, docs/decisions/0062: tokens of several partitions are settled by one request, in
// every way. A request that is refused, because a lock is lost or a token is there twice, settles
// nothing.
func TestSettleTokensOfSeveralPartitions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		s := b.spreadTokens()
		s.disposed(410, amqp.CondMessageLockLost, "completed", append(s.tokens("abcde"), amqp.UUID{1, 2, 3}))
		s.disposed(410, amqp.CondMessageLockLost, "completed", s.tokens("abca"))
		s.left("abcdefghijkl")
		s.disposed(200, "", "completed", s.tokens("abcde"))
		s.left("fghijkl")
		s.disposed(410, amqp.CondMessageLockLost, "suspended", s.tokens("ifea"))
		s.disposed(200, "", "abandoned", s.tokens("fgh"), amqp.Pair{Key: "properties-to-modify", Value: amqp.Map{{Key: "k", Value: "v"}}})
		s.disposed(200, "", "suspended", s.tokens("ij"), amqp.Pair{Key: "deadletter-reason", Value: "why"})
		s.disposed(200, "", "defered", s.tokens("kl"))
		s.left("fghkl")
		s.credit(2, 12, 3, false)
		var again []string
		for range 3 {
			m := s.receive()
			if v, _ := m.application.Get("k"); v != "v" {
				t.Errorf("%v has %v", m.properties.MessageID, m.application)
			}
			again = append(again, m.properties.MessageID.(string))
		}
		if slices.Sort(again); fmt.Sprint(again) != "[f g h]" {
			t.Errorf("abandoned: %v", again)
		}
		b.shows("wide/$deadletterqueue", "[i j]")
	})
}

// SM-210, docs/decisions/0062: while one of the partitions does not serve, a request about its
// tokens and those of others is busy and has settled nothing. Tokens of the others can be settled
// without it, and all once it is back, because its locks are in its log.
func TestSettleTokensWhileAPartitionIsAway(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		s := b.spreadTokens()
		if err := b.ns.FencePartition(b.Context(), 1, nil, event.ReasonGiven{Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		expect[*amqp.Detach](s.peerConn)
		both := s.on[0][:1] + s.on[1][:1]
		s.disposed(503, amqp.CondServerBusy, "completed", s.tokens(both))
		s.managedWith(503, amqp.CondServerBusy, "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(s.tokens(both)...)}})
		s.disposed(200, "", "completed", s.tokens(s.on[0][1:2]))
		if _, err := b.ns.RestartPartition(b.Context(), 1, nil, event.ReasonGiven{}); err != nil {
			t.Fatal(err)
		}
		s.disposed(200, "", "completed", s.tokens(both))
		s.disposed(200, "", "completed", s.tokens(s.on[0][2:]+s.on[1][1:]))
		s.left("")
	})
}

// SM-048, S4-16: one request renews locks in several partitions; the answer has the new ends in the
// order of the tokens. Where one is lost the request is refused.
func TestRenewTokensOfSeveralPartitions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		s := b.spreadTokens()
		s.disposed(200, "", "completed", s.tokens("l"))
		time.Sleep(20 * time.Second)
		until := timestampOf(time.Now().Add(30 * time.Second))
		body := s.managedWith(200, "", "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(s.tokens("kajbic")...)}}).(amqp.Map)
		v, _ := body.Get("expirations")
		times := v.(amqp.Array).Values
		if len(times) != 6 || slices.ContainsFunc(times, func(at any) bool { return at != until }) {
			t.Errorf("%v, not six times %v", times, until)
		}
		s.managedWith(410, amqp.CondMessageLockLost, "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(s.tokens("dl")...)}})
		time.Sleep(20 * time.Second) // the locks of the others have ended
		s.disposed(410, amqp.CondMessageLockLost, "completed", s.tokens("ae"))
		s.disposed(200, "", "completed", s.tokens("abcijk"))
		s.left("defgh")
	})
}
