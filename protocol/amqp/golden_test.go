package amqp

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goldenFrame is a frame of the specification with its meaning.
type goldenFrame struct {
	name  string
	bytes string
	frame func() []byte
	want  Performative // nil for an empty frame
}

var goldenFrames = []goldenFrame{
	{
		"WP-001 sasl-mechanisms (1.5)",
		"0000003f 02010000 005340 c03201e02f04b3 000000074d53534243425300000005504c41494e00000009414e4f4e594d4f5553" +
			"0000000845585445524e414c",
		nil,
		&SASLMechanisms{Mechanisms: []Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"}},
	},
	{
		"accepted of a send or a settlement (3.3)",
		"00000017 02000001 005315 c00a06 42 43 43 41 005324 45 40",
		nil,
		&Disposition{Role: RoleSender, First: 0, Last: Some(uint32(0)), Settled: true, State: Accepted{}},
	},
	{
		"WP-111 answer to a dead-letter: rejected, error null (0.8)",
		"0000001a 02000001 005315 c00d06 42 43 43 41 005325 c0020140 40",
		nil,
		&Disposition{Role: RoleSender, First: 0, Last: Some(uint32(0)), Settled: true, State: Rejected{}},
	},
	{
		"WP-002 sasl-outcome (1.5)",
		"0000001a 02010000 005344 c00d02 5000 a00857656c636f6d6521",
		nil,
		&SASLOutcome{Code: SASLOK, AdditionalData: []byte("Welcome!")},
	},
	{
		"WP-123 drained flow (4.3)",
		"0000001e 02000001 005313 c0110b 43 5201 5201 5201 5203 5205 43 40 41 42 40",
		func() []byte {
			return AppendFlow(nil, 1, &Flow{
				NextIncomingID: Some(uint32(0)), IncomingWindow: 1, NextOutgoingID: 1, OutgoingWindow: 1,
				Handle: Some(uint32(3)), DeliveryCount: Some(uint32(5)), LinkCredit: Some(uint32(0)), Drain: true,
			})
		},
		&Flow{
			NextIncomingID: Some(uint32(0)), IncomingWindow: 1, NextOutgoingID: 1, OutgoingWindow: 1,
			Handle: Some(uint32(3)), DeliveryCount: Some(uint32(5)), LinkCredit: Some(uint32(0)), Drain: true,
		},
	},
	{
		"WP-021 close without error (1.8)",
		"0000000f 02000000 005318 c0020140",
		nil,
		&Close{},
	},
	{"keep-alive (1.1)", "00000008 02000000", func() []byte { return AppendEmptyFrame(nil) }, nil},
}

// Frames whose bytes the wire protocol document gives, most of them recorded from the real service.
func TestGoldenFrames(t *testing.T) {
	for _, c := range goldenFrames {
		t.Run(c.name, func(t *testing.T) { c.check(t) })
	}
}

// check checks that the frame is encoded to its bytes, and decoded from them.
func (c *goldenFrame) check(t *testing.T) {
	want := unhex(t, c.bytes)
	h, err := ParseFrameHeader(want)
	if err != nil || int(h.Size) != len(want) {
		t.Fatalf("header %+v of %d bytes, err %v", h, len(want), err)
	}
	var got []byte
	switch {
	case c.frame != nil:
		got = c.frame()
	case h.Type == FrameTypeSASL:
		got = AppendSASLFrame(nil, c.want)
	default:
		got = AppendFrame(nil, h.Channel, c.want, nil)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("encoded %x\nwant    %x", got, want)
	}
	if c.want == nil {
		return
	}
	if p, _, err := DecodePerformative(want[8:], HandshakeLimits); err != nil || !cmp.Equal(p, c.want) {
		t.Fatalf("decoded %v, err %v (-want +got):\n%s", p, err, cmp.Diff(c.want, p))
	}
}

// WP-102, WP-104: a first and a continuation frame of a delivery, byte by byte. One client finds
// the payload after exactly eleven fields.
func TestGoldenTransfersWP104(t *testing.T) {
	first := &Transfer{
		Handle: 3, DeliveryID: Some(uint32(0)), DeliveryTag: unhex(t, "33221100 5544 7766 8899aabbccddeeff"),
		MessageFormat: Some(MessageFormatPlain), Settled: Some(false), More: true,
	}
	want := "0000002e 02000001 005314 c0 1e 0b 5203 43 a01033221100554477668899aabbccddeeff 43 42 41 40 40 40 40 40 abcdef"
	if got := append(AppendTransferHeader(nil, 1, first, 3), 0xab, 0xcd, 0xef); !bytes.Equal(got, unhex(t, want)) {
		t.Errorf("first frame %x\nwant        %x", got, unhex(t, want))
	}
	rest := &Transfer{Handle: 3}
	want = "0000001b 02000001 005314 c0 0d 0b 5203 40 40 40 40 42 40 40 40 40 40 01"
	if got := append(AppendTransferHeader(nil, 1, rest, 1), 1); !bytes.Equal(got, unhex(t, want)) {
		t.Errorf("continuation %x\nwant         %x", got, unhex(t, want))
	}
}

// Wire-protocol 3.1: an empty source is eleven nulls.
func TestGoldenSource(t *testing.T) {
	want := unhex(t, "005328 c00c0b 4040404040404040404040")
	if got := appendComposite(nil, &Source{}); !bytes.Equal(got, want) {
		t.Errorf("%x; want bytes.Equal(got, want)", got)
	}
	want = unhex(t, "005329 c00e07 a1057175657565 404040404040")
	if got := appendComposite(nil, &Target{Address: "queue"}); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// Wire-protocol 4.2: the session filter keeps its shape, described or plain, named or null.
func TestSessionFilterShapes(t *testing.T) {
	for _, filter := range []any{
		Described{uint64(0x000000137000000C), "s1"}, Described{uint64(0x000000137000000C), nil}, "s1", "", nil,
	} {
		want := &Source{Address: "q", Filter: Map{{Symbol("com.microsoft:session-filter"), filter}}}
		got, _, err := decodeComposite(appendComposite(nil, want), DefaultLimits)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%v: %v, %v (-want +got):\n%s", filter, got, err, cmp.Diff(want, got))
		}
	}
}

// AMQP 4.5.7: a coordinator's answer when a transaction begins.
func TestDeclared(t *testing.T) {
	want := unhex(t, "005333 c00701 a0 04 01020304")
	if got := appendComposite(nil, Declared{TxnID: []byte{1, 2, 3, 4}}); !bytes.Equal(got, want) {
		t.Errorf("declared %x, want %x", got, want)
	}
}

func TestProtocolHeaders(t *testing.T) {
	for want, h := range map[string]ProtocolHeader{
		"414d515000010000": ProtocolAMQP, "414d515003010000": ProtocolSASL,
	} {
		if !bytes.Equal(h[:], unhex(t, want)) {
			t.Errorf("%x, want %s", h, want)
		}
	}
}
