package amqp

import (
	"fmt"
	"strings"
	"testing"
)

func TestPrint(t *testing.T) {
	for want, v := range map[string]any{
		`transfer{handle=3 delivery-id=70000 delivery-tag=30313233343536373839616263646566 message-format=0 settled=false batchable}`: benchTransfer(),
		`disposition{role=receiver first=70000 last=70000 settled=true state=accepted{}}`:                                             benchDisposition(),
		`detach{handle=1 closed=true error=error{condition="amqp:not-found" description="gone" info={"k":"v"}}}`:                      &Detach{Handle: 1, Closed: true, Error: sampleError},
		`attach{name="l" handle=0 role=sender source=null target=target{address="q"}}`:                                                &Attach{Name: "l", Target: &Target{Address: "q"}},
		`attach{name="l" handle=0 role=sender source=null target=target{}}`:                                                           &Attach{Name: "l", Target: (*Target)(nil)},
		`[null 1 2024-01-01T00:00:00.000Z (3 bytes) "a\nb"]`:                                                                          List{nil, uint32(1), Timestamp(1704067200000), []byte("abc"), "a\nb"},
		`transactional-state{txn-id=01 state=modified{undeliverable-here}}`:                                                           TransactionalState{TxnID: []byte{1}, Outcome: Modified{UndeliverableHere: true}},
	} {
		if got := Print(v); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	long := Print(List{strings.Repeat("x", 1000), make(List, 1000)})
	if len(long) > 1500 {
		t.Errorf("%d bytes printed", len(long))
	}
	for _, s := range samples() {
		if got := Print(s.value); !strings.HasPrefix(got, compositeName(s.value)+"{") {
			t.Error(got)
		}
	}
	for _, c := range sampleValues {
		if got := Print(c.value); strings.Contains(got, "?") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// S31: no way of printing shows a login secret.
func TestPrintHidesSecrets(t *testing.T) {
	for _, v := range []any{
		&SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00user\x00secret")},
		&SASLResponse{Response: []byte("secret")},
		&SASLChallenge{Challenge: []byte("secret")},
	} {
		for _, format := range []string{"%v", "%+v", "%s", "%#v"} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, "secret") || strings.Contains(got, "0x73, 0x65") {
				t.Errorf("%s: %s", format, got)
			}
		}
	}
}
