package servicebus

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// FuzzConnection sends a script of frames to a logged-in connection, all at once or one by one: the
// server answers with whole frames that have all their fields, nothing follows a close, and all
// goroutines end (reliability.md T4).
func FuzzConnection(f *testing.F) {
	scripts := [][]byte{}
	scripts = append(scripts, linkScripts()...)
	scripts = append(scripts, messageSessionScripts()...)
	scripts = append(scripts, operationScripts(f)...)
	scripts = append(scripts, transactionScripts(f)...)
	for _, script := range scripts {
		f.Add(script, false)
		f.Add(script, true)
	}
	f.Fuzz(func(t *testing.T, script []byte, apart bool) {
		synctest.Test(t, func(t *testing.T) {
			checkAnswers(t, answersTo(t, script, apart), script)
		})
	})
}

// answersTo is all that a server says to a script. apart: each frame is answered before the next
// one comes.
func answersTo(t *testing.T, script []byte, apart bool) (answer []byte) {
	server := &Server{Broker: newEmptyBroker(), Options: Options{Access: testAccess(nil), AllowPlainWithoutTLS: true, Logger: slog.New(slog.DiscardHandler), NewID: counter()}}
	client, end := net.Pipe()
	done := make(chan struct{})
	go func() { server.ServeConn(end); close(done) }()
	read := make(chan struct{})
	go func() { answer, _ = io.ReadAll(client); close(read) }()
	hello := append([]byte(nil), amqp.ProtocolSASL[:]...)
	hello = amqp.AppendSASLFrame(hello, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00root-key")})
	hello = append(hello, amqp.ProtocolAMQP[:]...)
	hello = amqp.AppendFrame(hello, 0, &amqp.Open{ContainerID: "f"}, nil)
	hello = amqp.AppendFrame(hello, 0, &amqp.Begin{IncomingWindow: 100, OutgoingWindow: 100}, nil)
	client.Write(hello)
	for rest := script; len(rest) > 0; {
		n := len(rest)
		if apart && n >= 4 {
			n = min(n, max(8, int(binary.BigEndian.Uint32(rest))))
		}
		client.Write(rest[:n])
		rest = rest[n:]
		checkBooks(t, server)
	}
	client.Close()
	<-done
	<-read
	if server.Panics() > 0 {
		t.Error("panic")
	}
	return answer
}

// counter makes ids that a script can know.
func counter() func() [16]byte {
	var n byte
	return func() (id [16]byte) {
		n++
		id[15] = n
		return id
	}
}

// checkAnswers checks each frame that a server sent to a script.
func checkAnswers(t *testing.T, answer, script []byte) {
	frames := newRecorder(t)
	if bytes.IndexByte(script, 0x30) >= 0 || bytes.IndexByte(script, 0x34) >= 0 || bytes.Contains(script, []byte("amqp:")) {
		frames.spoken = &spokenOf{anything: true}
	}
	for len(answer) >= 8 {
		if isProtocolHeader(answer) {
			answer = answer[8:]
			continue
		}
		size := binary.BigEndian.Uint32(answer)
		if size < 8 || int(size) > len(answer) {
			break // cut by the end of the connection
		}
		frames.frame(answer[:size])
		if body := answer[8:size]; len(body) > 0 && answer[5] == amqp.FrameTypeAMQP {
			if _, _, err := amqp.DecodePerformative(body, amqp.DefaultLimits); err != nil {
				t.Error(err)
			}
		}
		answer = answer[size:]
	}
}

// script is frames on the first channel, transfers with a small message.
func script(ps ...amqp.Performative) (b []byte) {
	for _, p := range ps {
		var payload []byte
		if _, ok := p.(*amqp.Transfer); ok {
			payload = newMessage("a", "x")
		}
		b = amqp.AppendFrame(b, 0, p, payload)
	}
	return b
}

// linkScripts send to links of queues, topics and nodes, and receive from them.
func linkScripts() [][]byte {
	attach := &amqp.Attach{Name: "s", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}
	receive := &amqp.Attach{Name: "r", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}}
	publish := &amqp.Attach{Name: "t", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "t"}}
	batch := amqp.AppendData(amqp.AppendData(nil, newMessage("a", "x")), amqp.AppendData(nil, []byte("y")))
	return [][]byte{
		script(attach, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0))}, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(1)), More: true}, &amqp.Transfer{Handle: 1, Aborted: true}),
		script(receive, &amqp.Flow{Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(9)), Drain: true}, &amqp.Disposition{Role: true, First: 0, Last: amqp.Some(uint32(5)), State: amqp.Rejected{}}),
		script(attach, attach, &amqp.Detach{Handle: 1}, receive, &amqp.End{}, &amqp.Begin{}),
		script(&amqp.Attach{Name: "c", Handle: 3, Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, &amqp.Transfer{Handle: 3, DeliveryID: amqp.Some(uint32(0))}),
		script(&amqp.Attach{Name: "c", Handle: 3, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q/$management"}}, &amqp.Transfer{Handle: 3, DeliveryID: amqp.Some(uint32(0))}, &amqp.Close{}),
		script(publish, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0))}),
		amqp.AppendFrame(script(publish), 0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0)), MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, batch),
	}
}

// filtered attaches a receiver with a session filter of that value.
func filtered(handle uint32, value any) *amqp.Attach {
	return &amqp.Attach{Name: fmt.Sprint("f", handle), Handle: handle, Role: amqp.RoleReceiver,
		Source: &amqp.Source{Address: "s", Filter: amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: value}}}}
}

// fuzzCredit is for the link with handle 2.
func fuzzCredit() *amqp.Flow {
	return &amqp.Flow{Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(9)), IncomingWindow: 100}
}

func messageSessionScripts() (scripts [][]byte) {
	credit := fuzzCredit()
	for _, value := range []any{nil, "a", described(nil), described("a"), described(described("a")), amqp.Symbol("a"), int32(1), amqp.List{}} {
		scripts = append(scripts, script(filtered(2, value), credit, &amqp.Disposition{Role: true, First: 0, State: amqp.Modified{UndeliverableHere: true}},
			&amqp.Disposition{Role: true, First: 0, State: amqp.StateAccepted}, filtered(3, value), &amqp.Detach{Handle: 2}, &amqp.Detach{Handle: 3}))
	}
	return append(scripts,
		script(filtered(2, nil), &amqp.Flow{Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(9)), Drain: true, Echo: true}, &amqp.Transfer{Handle: 2, DeliveryID: amqp.Some(uint32(0))}),
		// a session that is held, and one that was
		script(filtered(2, "a"), filtered(3, "a"), credit, filtered(4, "b"), &amqp.Detach{Handle: 2}, filtered(5, "a")),
		script(filtered(2, nil), &amqp.Attach{Name: "f2", Handle: 4, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}}, &amqp.End{}),
	)
}

// operationScripts ask for each operation of a $management node.
func operationScripts(t testing.TB) (scripts [][]byte) {
	bodies := operationBodies()
	for name := range operations {
		if bodies[name] == nil {
			t.Fatalf("no seed for %s", name)
		}
		request := requestFor(name, bodies[name])
		address := "s/$management"
		switch operations[name].about {
		case ofSent:
			address = "t/$management"
		case ofRules:
			address = "t/subscriptions/u/$management"
		}
		node := func(handle uint32, role amqp.Role) *amqp.Attach {
			return &amqp.Attach{Name: "m", Handle: handle, Role: role, Source: &amqp.Source{Address: address}, Target: &amqp.Target{Address: address}}
		}
		frames := script(filtered(2, "a"), fuzzCredit(), node(5, amqp.RoleSender), node(6, amqp.RoleReceiver), &amqp.Flow{Handle: amqp.Some(uint32(6)), LinkCredit: amqp.Some(uint32(9))})
		scripts = append(scripts, amqp.AppendFrame(frames, 0, &amqp.Transfer{Handle: 5, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte{1}}, request))
	}
	return scripts
}

// requestFor is a request to a $management node.
func requestFor(operation string, body amqp.Map) []byte {
	request := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "m"})
	request = amqp.AppendSection(request, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: operationPrefix + operation},
		{Key: "server-timeout", Value: uint32(1)}, {Key: keyAssociatedLink, Value: "f2"}})
	return amqp.AppendSection(request, amqp.SectionValue, body)
}

func operationBodies() map[string]amqp.Map {
	later := scheduled("x", time.Now().Add(time.Hour))
	return map[string]amqp.Map{
		"renew-lock":                 {{Key: "lock-tokens", Value: uuids(amqp.UUID{1})}},
		"update-disposition":         {{Key: "lock-tokens", Value: uuids(amqp.UUID{1})}, {Key: "disposition-status", Value: "suspended"}, {Key: "deadletter-reason", Value: "r"}, {Key: "session-id", Value: "a"}, {Key: "properties-to-modify", Value: amqp.Map{{Key: "k", Value: "v"}}}},
		"peek-message":               {{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(2)}, {Key: "omit-message-body", Value: true}, {Key: "session-id", Value: "a"}},
		"schedule-message":           scheduleBody(later, amqp.AppendData(nil, []byte("x"))),
		"cancel-scheduled-message":   numbers(int64(1)),
		"receive-by-sequence-number": append(numbers(int64(1), int64(2)), amqp.Pair{Key: "receiver-settle-mode", Value: uint32(1)}),
		"renew-session-lock":         sessionBody("a"),
		"set-session-state":          sessionBody("a", amqp.Pair{Key: "session-state", Value: []byte("x")}),
		"get-session-state":          sessionBody("a"),
		"get-message-sessions":       {{Key: "last-updated-time", Value: amqp.Timestamp(0)}, {Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(9)}},
		"add-rule":                   {{Key: "rule-name", Value: "r"}, {Key: "rule-description", Value: correlationRule("a", amqp.Map{{Key: "n", Value: int32(1)}})}},
		"remove-rule":                {{Key: "rule-name", Value: "r"}},
		"enumerate-rules":            {{Key: "top", Value: int32(9)}, {Key: "skip", Value: int32(0)}},
		"batch-delete-messages":      {{Key: "message-count", Value: int32(9)}, {Key: "enqueued-time-utc", Value: amqp.Timestamp(0)}},
	}
}
