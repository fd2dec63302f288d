package attack

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// attack is one kind of hostile peers.
type attack struct {
	name string
	// files says that the broker has few file descriptors
	files bool
	// prepare makes what the attack needs: nil, nothing
	prepare func(*scene)
	// run attacks until the context ends, in a process of its own
	run func(*assault, context.Context)
	// allowance is how many bytes the broker may take for the attackers, by the formula of
	// docs/guide/settings.md
	allowance func(*scene) int64
}

var attacks = []attack{
	{name: "descriptors", files: true, run: (*assault).descriptors, allowance: idle},
	{name: "texts-before-login", run: (*assault).textsBefore, allowance: idle},
	{name: "texts-after-login", run: (*assault).textsAfter, allowance: loggedIn},
	{name: "links", run: (*assault).links, allowance: withLinks},
	{name: "sessions", prepare: (*scene).makeSessions, run: (*assault).askSessions, allowance: loggedIn},
	{name: "peek", prepare: (*scene).makeMessages, run: (*assault).askPeek, allowance: loggedIn},
	{name: "rules", run: (*assault).askRules, allowance: loggedIn},
	{name: "batch-delete", prepare: (*scene).makeMessages, run: (*assault).askDelete, allowance: loggedIn},
	{name: "dispositions", prepare: (*scene).makeMessages, run: (*assault).dispose, allowance: loggedIn},
}

const (
	anonymous = 1000   // connections before login
	intruders = 8      // connections of attackers who have logged in
	longText  = 60_000 // bytes: nearly all of a frame
	manyLinks = 20_000 // per connection
)

// each runs f for that many attackers at a time, and again when it ends, until the context ends.
func each(ctx context.Context, n int, f func(n int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				f(i)
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	all.Wait()
}

// descriptors holds connections that say nothing, more than the broker has descriptors for.
func (a *assault) descriptors(ctx context.Context) {
	each(ctx, 1300, func(n int) {
		nc, err := from(ctx, fmt.Sprintf("127.0.1.%d", 1+n%14), a.address)
		if err != nil {
			return
		}
		defer nc.Close()
		stop := context.AfterFunc(ctx, func() { nc.Close() })
		defer stop()
		if n%3 == 0 { // the broker counts those differently
			_, _ = nc.Write(amqp.ProtocolAMQP[:])
		}
		_, _ = nc.Read(make([]byte, 64))
		_, _ = nc.Read(make([]byte, 64)) // until it is closed
	})
}

// textsBefore attaches as many links as are allowed before a token, with long names, and sends no
// token.
func (a *assault) textsBefore(ctx context.Context) {
	name := strings.Repeat("n", longText)
	each(ctx, anonymous, func(n int) {
		p, err := attacker(ctx, n, a.address)
		if err != nil {
			return
		}
		defer p.Close()
		p.open(name)
		for channel := range uint16(16) {
			p.begin(channel)
			for handle := range uint32(2) {
				p.attach(channel, handle, fmt.Sprint(channel, handle, name), "$cbs", amqp.Role(handle == 1))
				if p.flush() != nil {
					return
				}
			}
		}
		<-p.over
	})
}

// textsAfter makes origins of what it does: links with long names from containers with long names,
// each with a message.
func (a *assault) textsAfter(ctx context.Context) {
	for _, length := range []int{1000, longText} {
		name := strings.Repeat("n", length)
		turn, cancel := context.WithTimeout(ctx, a.duration/2)
		each(turn, intruders, func(n int) {
			p, err := attacker(turn, n, a.address)
			if err != nil || p.login() != nil {
				return
			}
			defer p.Close()
			for i := uint32(0); turn.Err() == nil; i++ {
				p.attach(0, 10, fmt.Sprint(i, name), "attacked", amqp.RoleSender)
				p.transfer(0, 10, amqp.AppendSection(nil, amqp.SectionData, []byte("x")))
				p.write(0, &amqp.Detach{Handle: 10, Closed: true}, nil)
				if p.flush() != nil {
					return
				}
			}
		})
		cancel()
	}
}

// links attaches as many links as there may be, with the longest names there may be, on each of a
// few connections.
func (a *assault) links(ctx context.Context) {
	each(ctx, intruders, func(n int) {
		p, err := attacker(ctx, n, a.address)
		if err != nil || p.login() != nil {
			return
		}
		defer p.Close()
		name := strings.Repeat("n", 1000)
		for i := range uint32(manyLinks) {
			p.attach(0, 10+i, fmt.Sprint(i, name), "attacked", amqp.Role(i%2 == 1))
			if i%100 == 0 && p.flush() != nil {
				return
			}
		}
		_ = p.flush()
		<-p.over
	})
}

// asking lets attackers send requests to a management node, as many as fit.
func (a *assault) asking(ctx context.Context, entity string, ask func(p *peer, n int)) {
	each(ctx, intruders, func(n int) {
		p, err := attacker(ctx, n, a.address)
		if err != nil || p.login() != nil {
			return
		}
		defer p.Close()
		p.manage(entity)
		for i := 0; ctx.Err() == nil; i++ {
			ask(p, i)
			if p.flush() != nil {
				return
			}
		}
	})
}

func (a *assault) askSessions(ctx context.Context) {
	a.asking(ctx, "sessions", func(p *peer, n int) {
		p.ask("get-message-sessions", amqp.Map{{Key: "last-updated-time", Value: amqp.Timestamp(253402300799999)},
			{Key: "skip", Value: int32(a.many - 100)}, {Key: "top", Value: int32(100)}})
	})
}

func (a *assault) askPeek(ctx context.Context) {
	a.asking(ctx, "attacked", func(p *peer, n int) {
		body := amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1000)}}
		if n%2 == 1 {
			body = append(body, amqp.Pair{Key: "session-id", Value: "none"})
		}
		p.ask("peek-message", body)
	})
}

func (a *assault) askRules(ctx context.Context) {
	a.asking(ctx, "topic/subscriptions/sub", func(p *peer, n int) {
		p.ask("enumerate-rules", amqp.Map{{Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(1 << 30)}})
	})
}

// askDelete deletes what is not there: all are looked at, none is old enough.
func (a *assault) askDelete(ctx context.Context) {
	a.asking(ctx, "attacked", func(p *peer, n int) {
		p.ask("batch-delete-messages", amqp.Map{{Key: "message-count", Value: int32(4000)}, {Key: "enqueued-time-utc", Value: amqp.Timestamp(1)}})
	})
}

// dispose takes messages under locks and says of each again and again that it has been received.
func (a *assault) dispose(ctx context.Context) {
	each(ctx, intruders, func(n int) {
		p, err := attacker(ctx, n, a.address)
		if err != nil || p.login() != nil {
			return
		}
		defer p.Close()
		p.attach(0, 10, "receiver", "attacked", amqp.RoleReceiver)
		for ctx.Err() == nil {
			for id := range uint32(1000) {
				p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: id, Last: amqp.Some(uint32(50_000)), State: amqp.Received{}}, nil)
			}
			if p.flush() != nil {
				return
			}
		}
	})
}

// makeSessions fills a queue with sessions.
func (s *scene) makeSessions() {
	s.send("sessions", func(n int) *azservicebus.Message {
		id := fmt.Sprint("session-", n)
		return &azservicebus.Message{SessionID: &id, Body: []byte("x")}
	})
}

func (s *scene) makeMessages() {
	s.send("attacked", func(int) *azservicebus.Message { return &azservicebus.Message{Body: []byte("x")} })
}

// send sends many messages.
func (s *scene) send(entity string, message func(n int) *azservicebus.Message) {
	s.Helper()
	client := s.honest.client()
	defer hangUp(client)
	ctx := s.Context()
	sender, err := client.NewSender(entity, nil)
	if err != nil {
		s.Fatal(err)
	}
	for n := 0; n < s.many; {
		batch, err := sender.NewMessageBatch(ctx, nil)
		if err != nil {
			s.Fatal(err)
		}
		for ; n < s.many && batch.NumMessages() < 1000; n++ {
			if err := batch.AddMessage(message(n), nil); err != nil {
				s.Fatal(err)
			}
		}
		if err := sender.SendMessageBatch(ctx, batch, nil); err != nil {
			s.Fatal(err)
		}
	}
}

// The formula of docs/guide/settings.md, as far as it is about peers, in bytes. Without GOGC
// garbage grows to the size of what is in use: hence the factor of 2.
const (
	room       = 64 << 20  // the broker by itself
	caches     = 16 << 20  // of four partitions
	perPending = 256 << 10 // a connection before login, with all it may send
	perConn    = 1 << 20   // a connection after login, with what is read and written at the moment
	// … that sends or asks for more than is answered: 32 MiB in, 8 out, 24 of answers
	perBuffers = 64 << 20
	perLinks   = 96 << 20 // … with as many links as it may have
	perMessage = 63       // a message that waits
)

func idle(*scene) int64 { return room + caches + 2*anonymous*perPending }

func loggedIn(*scene) int64 { return room + caches + 2*intruders*(perConn+perBuffers) }

func withLinks(s *scene) int64 { return loggedIn(s) + 2*intruders*perLinks }
