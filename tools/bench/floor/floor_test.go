package floor_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/tools/bench/floor"
)

func listen(t *testing.T, o floor.Options) *floor.Server {
	t.Helper()
	s, err := floor.Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func session(t *testing.T, s *floor.Server, o *amqp.ConnOptions) *amqp.Session {
	t.Helper()
	c, err := amqp.Dial(t.Context(), s.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	session, err := c.NewSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func TestLogins(t *testing.T) {
	s := listen(t, floor.Options{})
	for name, sasl := range map[string]amqp.SASLType{"none": nil, "anonymous": amqp.SASLTypeAnonymous(), "plain": amqp.SASLTypePlain("u", "p")} {
		c, err := amqp.Dial(t.Context(), s.URL(), &amqp.ConnOptions{SASLType: sasl})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

// More messages than the window and the credit hold, in several frames each.
func TestSendersNeverRunOutOfCredit(t *testing.T) {
	s := listen(t, floor.Options{})
	session := session(t, s, nil)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			link, err := session.NewSender(t.Context(), "orders", nil)
			if err != nil {
				t.Error(err)
				return
			}
			var receipts []amqp.SendReceipt
			for i := range 2500 {
				size := 10
				if i%500 == 0 {
					size = 150_000
				}
				receipt, err := link.SendWithReceipt(t.Context(), amqp.NewMessage(make([]byte, size)), nil)
				if err != nil {
					t.Error(err)
					return
				}
				receipts = append(receipts, receipt)
			}
			for _, receipt := range receipts {
				state, err := receipt.Wait(t.Context())
				if _, ok := state.(*amqp.StateAccepted); !ok || err != nil {
					t.Errorf("%v, %v; want ok", state, err)
					return
				}
			}
			if err := link.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSettledSendsAreNotAnswered(t *testing.T) {
	s := listen(t, floor.Options{})
	link, err := session(t, s, nil).NewSender(t.Context(), "orders", &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()})
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if err := link.Send(t.Context(), amqp.NewMessage([]byte("x")), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Each way of settling is confirmed, and bodies are complete for a client with small frames.
func TestReceiversGetMessagesWithoutEnd(t *testing.T) {
	for _, settleRange := range []int{1, 16, 1000} {
		s := listen(t, floor.Options{MessageSize: 3000, SettleRange: settleRange})
		session := session(t, s, &amqp.ConnOptions{MaxFrameSize: 1024})
		link, err := session.NewReceiver(t.Context(), "orders", &amqp.ReceiverOptions{Credit: 100, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		settle := []func(context.Context, *amqp.Message) error{
			link.AcceptMessage,
			link.ReleaseMessage,
			func(ctx context.Context, m *amqp.Message) error { return link.ModifyMessage(ctx, m, nil) },
			func(ctx context.Context, m *amqp.Message) error {
				return link.RejectMessage(ctx, m, &amqp.Error{Condition: "com.microsoft:dead-letter"})
			},
		}
		for worker := range 40 {
			group.Go(func() {
				for range 50 {
					m, err := link.Receive(t.Context(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if len(m.GetData()) != 3000 || len(m.DeliveryTag) != 16 || m.Properties.MessageID == nil {
						t.Errorf("message of %d bytes, tag %x, properties %+v", len(m.GetData()), m.DeliveryTag, m.Properties)
					}
					if err := settle[worker%len(settle)](t.Context(), m); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		if err := link.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestDrain(t *testing.T) {
	s := listen(t, floor.Options{})
	link, err := session(t, s, nil).NewReceiver(t.Context(), "orders", &amqp.ReceiverOptions{Credit: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := link.IssueCredit(3); err != nil {
		t.Fatal(err)
	}
	// the SDK never asks for credit that it still holds when a drain begins
	if _, err := link.Receive(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := link.DrainCredit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for link.Prefetched() != nil {
		n++
	}
	if n != 2 {
		t.Errorf("%d messages for a credit of 3", n+1)
	}
}

func TestServiceBusSDK(t *testing.T) {
	s := listen(t, floor.Options{})
	c, err := azservicebus.NewClientFromConnectionString(
		"Endpoint=sb://"+s.Addr()+";SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	sender, err := c.NewSender("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("hello")}, nil); err != nil {
		t.Fatal(err)
	}
	receiver, err := c.NewReceiverForQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := receiver.ReceiveMessages(t.Context(), 5, nil)
	if err != nil || len(messages) == 0 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	for _, m := range messages {
		if err := receiver.CompleteMessage(t.Context(), m, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsNotAMQPEndsTheConnection(t *testing.T) {
	s := listen(t, floor.Options{})
	for _, bytes := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x00\x01\x00\x00\x00\x00\x00\x07\x02\x00\x00\x00", "AMQP\x00\x01\x00\x00\x00\x00\x00\x0c\x02\x00\x00\x00\xff\xff\xff\xff"} {
		if _, err := exchange(t.Context(), s.Addr(), bytes); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: the connection stays open", strings.ToValidUTF8(bytes, "?"))
		}
	}
}

// A floor server that keeps messages delivers each sent message to one receiver, in order and
// complete, and answers sends and settlements.
func TestKeepsWhatItIsSent(t *testing.T) {
	s := listen(t, floor.Options{Dir: t.TempDir()})
	out := session(t, s, &amqp.ConnOptions{MaxFrameSize: 1024})
	sender, err := out.NewSender(t.Context(), "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 500
	for i := range n {
		size := 10
		if i%50 == 0 {
			size = 5000 // several frames
		}
		body := make([]byte, size)
		body[0], body[1] = byte(i>>8), byte(i)
		if err := sender.Send(t.Context(), amqp.NewMessage(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []amqp.ReceiverSettleMode{amqp.ReceiverSettleModeFirst, amqp.ReceiverSettleModeSecond} {
		link, err := session(t, s, nil).NewReceiver(t.Context(), "orders", &amqp.ReceiverOptions{Credit: -1, SettlementMode: mode.Ptr()})
		if err != nil {
			t.Fatal(err)
		}
		if err := link.IssueCredit(n / 2); err != nil {
			t.Fatal(err)
		}
		for i := range n / 2 {
			m, err := link.Receive(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := int(mode)*n/2 + i
			if got := int(m.GetData()[0])<<8 | int(m.GetData()[1]); got != want {
				t.Fatalf("message %d, want %d", got, want)
			}
			if err := link.AcceptMessage(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if mode == amqp.ReceiverSettleModeSecond { // nothing is left
			if err := link.IssueCredit(5); err != nil {
				t.Fatal(err)
			}
			if err := link.DrainCredit(t.Context(), nil); err != nil || link.Prefetched() != nil {
				t.Errorf("drained: %v", err)
			}
		}
		if err := link.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
