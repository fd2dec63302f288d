package sdkgo

import (
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
)

var statusAndQuota = group{
	"status-send-disabled":    statusSendDisabled,
	"status-receive-disabled": statusReceiveDisabled,
	"status-change":           statusChange,
	"quota-message-size":      quotaMessageSize,
	"quota-queue-full":        quotaQueueFull,
	"quota-ids":               quotaIDs,
	"quota-header":            quotaHeader,
}

func statusSendDisabled(b *bus) {
	b.wantError("disabled", b.trySend(text("A")))
	b.nothing(b.receiver())
	b.empty(peekLock)
}

func statusReceiveDisabled(b *bus) {
	b.send("A")
	b.wantReceiveDisabled()
	b.wantError("disabled", b.receiveError(b.deadLetters()))
}

func (b *bus) wantReceiveDisabled() {
	b.Helper()
	b.wantError("disabled", b.receiveError(b.receiver()))
	b.wantError("disabled", b.peekError(b.receiver()))
}

func statusChange(b *bus) {
	become := func(status string) {
		b.Helper()
		b.kill(map[string]any{"Status": status})
	}
	r := b.receiver()
	b.send("A", "B")
	become("ReceiveDisabled")
	b.send("C")
	b.wantReceiveDisabled()
	b.wantError("disabled", b.receiveError(b.deadLetters()))

	become("SendDisabled")
	b.wantError("disabled", b.trySend(text("D")))
	b.complete(r, b.one(r, "A"))
	b.wantTexts(b.peekAll(peekLock), "B", "C")

	become("Disabled")
	b.wantError("disabled", b.trySend(text("E")))
	b.wantReceiveDisabled()

	become("Active")
	b.complete(r, b.take(r, "B", "C")...)
	b.send("F")
	b.one(r, "F")
}

func quotaMessageSize(b *bus) {
	for range 2 {
		b.wantError("too-large", b.trySend(&message{Body: noise(300_000)}))
		b.send("small")
	}
	r := b.receiver()
	b.take(r, "small", "small")
	b.nothing(r)
}

func quotaQueueFull(b *bus) {
	full := []string{"The maximum entity size has been reached or exceeded for Queue", "Max entity size in bytes"}
	large := &message{Body: noise(200_000)}
	accepted := 0
	var err error
	for ; err == nil && accepted < 8; accepted++ {
		err = b.trySend(large)
	}
	accepted-- // the last was not
	b.wantError("queue-full", err, full...)
	if accepted < 4 || accepted > 7 {
		b.Fatalf("%d messages accepted", accepted)
	}
	r, dlq := b.receiver(), b.deadLetters()
	b.bury(r, b.receive(r, 1)...)
	b.wantError("queue-full", b.trySend(large), full...)
	b.complete(r, b.receive(r, accepted-1)...)
	b.complete(dlq, b.receive(dlq, 1)...)
	for emptied := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := b.trySend(large)
		if err == nil || !kinds["queue-full"](err) || time.Since(emptied) > 5*time.Second {
			b.must(err)
			return
		}
	}
}

func quotaIDs(b *bus) {
	right, wrong := strings.Repeat("x", 128), strings.Repeat("y", 129)
	b.post(&message{
		Body: []byte("A"), MessageID: &right, SessionID: &right, PartitionKey: &right, ReplyToSessionID: &right,
	})
	for _, m := range []*message{{MessageID: &wrong}, {SessionID: &wrong}, {PartitionKey: &wrong}, {ReplyToSessionID: &wrong}} {
		b.wantError("argument", b.trySend(m))
	}
	r := b.elsewhere() // for the SDK the refusals ended the connection
	a := b.one(r, "A")
	for name, got := range map[string]*string{
		"message id": to.Ptr(a.MessageID), "session id": a.SessionID, "partition key": a.PartitionKey, "reply-to session id": a.ReplyToSessionID,
	} {
		if deref(got) != right {
			b.Errorf("%s %q, want %q", name, deref(got), right)
		}
	}
	b.nothing(r)
}

func quotaHeader(b *bus) {
	properties := func(n, length int) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprint("p", i)] = strings.Repeat(fmt.Sprint(i), length)
		}
		return all
	}
	three := properties(3, 16_000)
	b.post(&message{Body: []byte("A"), ApplicationProperties: three})
	b.wantError("argument", b.trySend(&message{Body: []byte("B"), ApplicationProperties: properties(1, 33_000)}))
	// the SDK drops the text
	b.wantError("too-large", b.trySend(&message{Body: []byte("C"), ApplicationProperties: properties(5, 16_000)}))
	r := b.receiver()
	a := b.one(r, "A")
	if len(a.ApplicationProperties) != len(three) {
		b.Errorf("%d properties", len(a.ApplicationProperties))
	}
	for name, value := range three {
		if a.ApplicationProperties[name] != value {
			b.Errorf("%s: %.20v, want %.20v", name, a.ApplicationProperties[name], value)
		}
	}
	b.nothing(r)
}
