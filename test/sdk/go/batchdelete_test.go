package sdkgo

import (
	"crypto/tls"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/go-amqp"
)

var batchDeleting = group{
	"batch-delete": batchDelete,
}

// batchDelete shows the refusal where the queue is partitioned (semantics.md 10.7).
func batchDelete(b *bus) {
	if b.place.partitioned != nil {
		b.send("A")
		if status, _ := b.request(b.management("batch-delete/$management"), "com.microsoft:batch-delete-messages",
			map[string]any{"message-count": int32(2), "enqueued-time-utc": soon(time.Hour)}); status != 400 {
			b.Errorf("status %d, want 400", status)
		}
		b.wantTexts(b.peekAll(peekLock), "A")
		return
	}
	b.send("L", "D")
	r := b.receiver()
	got := b.take(r, "L", "D")
	b.postpone(r, got[1])
	b.schedule(soon(time.Hour), text("S"))
	b.send("A", "B", "C")
	time.Sleep(100 * time.Millisecond)
	cutoff := soon(0)
	time.Sleep(100 * time.Millisecond)
	b.send("Y")

	queue := b.management("batch-delete/$management")
	b.wantDeleted(queue, map[string]any{"message-count": int32(2), "enqueued-time-utc": cutoff}, 2)
	b.wantTexts(b.peekAll(peekLock), "L", "D", "S", "C", "Y")
	b.wantDeleted(queue, map[string]any{"message-count": int32(10), "enqueued-time-utc": cutoff}, 1)
	b.wantDeleted(queue, map[string]any{"message-count": int32(10), "enqueued-time-utc": cutoff}, 0)
	b.wantTexts(b.peekAll(peekLock), "L", "D", "S", "Y")
	b.bury(r, got[0])

	b.sendAll(texts(250))
	deleted := 0
	for {
		// without a time what came in this millisecond stays
		n := b.deleteBatch(queue, map[string]any{"message-count": int32(100), "enqueued-time-utc": soon(time.Hour)})
		if n == 0 {
			break
		}
		if n > 100 {
			b.Errorf("%d deleted at once", n)
		}
		deleted += n
	}
	if deleted != 251 {
		b.Errorf("%d deleted, want 250 and Y", deleted)
	}
	b.wantTexts(b.peekAll(peekLock), "D", "S")
	b.wantDeleted(b.management("batch-delete/$DeadLetterQueue/$management"), map[string]any{"message-count": int32(100)}, 1)
	b.empty(deadLetters)
}

func (b *bus) wantDeleted(m *management, request map[string]any, want int) {
	b.Helper()
	if n := b.deleteBatch(m, request); n != want {
		b.Errorf("%d deleted, want %d", n, want)
	}
}

// deleteBatch makes the request and returns how many were deleted: 204 says that there was none.
func (b *bus) deleteBatch(m *management, request map[string]any) int {
	b.Helper()
	status, body := b.request(m, "com.microsoft:batch-delete-messages", request)
	if status == 204 {
		return 0
	}
	answer, _ := body.(map[string]any)
	n, ok := answer["message-count"].(int32)
	if status != 200 || !ok || n < 1 {
		b.Fatalf("status %d, body %v", status, body)
	}
	return int(n)
}

// management is a pair of links to a management node, for what the SDK has no call for. It is made
// with the library under the SDK, on a connection that SASL PLAIN gives the rights of its rule.
type management struct {
	requests *amqp.Sender
	answers  *amqp.Receiver
}

func (b *bus) management(address string) *management {
	b.Helper()
	values := map[string]string{}
	for part := range strings.SplitSeq(b.place.connectionString, ";") {
		name, value, _ := strings.Cut(part, "=")
		values[name] = value
	}
	endpoint, err := url.Parse(values["Endpoint"])
	b.must(err)
	conn, err := amqp.Dial(b.patient(), "amqps://"+endpoint.Host, &amqp.ConnOptions{
		SASLType: amqp.SASLTypePlain(values["SharedAccessKeyName"], values["SharedAccessKey"]),
		// the broker made its certificate itself, and PLAIN needs TLS
		TLSConfig: &tls.Config{InsecureSkipVerify: true},
	})
	b.must(err)
	b.Cleanup(func() { _ = conn.Close() })
	session, err := conn.NewSession(b.patient(), nil)
	b.must(err)
	m := &management{}
	m.requests, err = session.NewSender(b.patient(), address, nil)
	b.must(err)
	m.answers, err = session.NewReceiver(b.patient(), address, &amqp.ReceiverOptions{TargetAddress: "answers"})
	b.must(err)
	return m
}

// request makes a request and returns status and body of the answer.
func (b *bus) request(m *management, operation string, body map[string]any) (int32, any) {
	b.Helper()
	b.must(m.requests.Send(b.patient(), &amqp.Message{
		Properties:            &amqp.MessageProperties{MessageID: "1", ReplyTo: to.Ptr("answers")},
		ApplicationProperties: map[string]any{"operation": operation},
		Value:                 body,
	}, nil))
	answer, err := m.answers.Receive(b.patient(), nil)
	b.must(err)
	b.must(m.answers.AcceptMessage(b.patient(), answer))
	status, _ := answer.ApplicationProperties["statusCode"].(int32)
	return status, answer.Value
}
