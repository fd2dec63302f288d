package amqp

import "testing"

func benchTransfer() *Transfer {
	return &Transfer{
		Handle:        3,
		DeliveryID:    Some(uint32(70000)),
		DeliveryTag:   []byte("0123456789abcdef"),
		MessageFormat: Some(MessageFormatPlain),
		Settled:       Some(false),
		Batchable:     true,
	}
}

func benchDisposition() *Disposition {
	return &Disposition{Role: RoleReceiver, First: 70000, Last: Some(uint32(70000)), Settled: true, State: StateAccepted}
}

func benchFlow() *Flow {
	return &Flow{
		NextIncomingID: Some(uint32(70000)), IncomingWindow: 5000, NextOutgoingID: 1, OutgoingWindow: 5000,
		Handle: Some(uint32(3)), DeliveryCount: Some(uint32(70000)), LinkCredit: Some(uint32(1000)),
		Available: Some(uint32(0)),
	}
}

// benchMessage is a message of about 1 KiB as a client sends it.
func benchMessage() []byte {
	b := AppendHeader(nil, &Header{Durable: Some(true), TTL: Some(uint32(60000))})
	b = AppendSection(b, SectionMessageAnnotations, Map{
		{Symbol("x-opt-partition-key"), "customer-17"},
		{Symbol("x-opt-scheduled-enqueue-time"), Timestamp(1700000000000)},
	})
	b = AppendProperties(b, &Properties{
		MessageID: "3f2504e0-4f89-11d3-9a0c-0305e82c3301", Subject: Some("order"), GroupID: Some("customer-17"),
		ContentType: Some(Symbol("application/json")),
	})
	b = AppendSection(b, SectionApplicationProperties, Map{
		{"Diagnostic-Id", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{"priority", int32(5)}, {"region", "eu"}, {"amount", 12.5}, {"flag", true},
	})
	return AppendData(b, make([]byte, 700))
}

func BenchmarkEncodeTransfer(b *testing.B) {
	t, buf, payload := benchTransfer(), make([]byte, 0, 2048), make([]byte, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = append(AppendTransferHeader(buf[:0], 1, t, len(payload)), payload...)
	}
}

func BenchmarkEncodeDisposition(b *testing.B) {
	d, buf := benchDisposition(), make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendDisposition(buf[:0], 1, d)
	}
}

func BenchmarkEncodeFlow(b *testing.B) {
	f, buf := benchFlow(), make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendFlow(buf[:0], 1, f)
	}
}

func benchDecode(b *testing.B, p Performative, payload []byte) {
	body := AppendFrame(nil, 1, p, payload)[FrameHeaderSize:]
	d := &Decoder{}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeTransfer(b *testing.B) { benchDecode(b, benchTransfer(), make([]byte, 1024)) }

func BenchmarkDecodeDisposition(b *testing.B) { benchDecode(b, benchDisposition(), nil) }

func BenchmarkDecodeFlow(b *testing.B) { benchDecode(b, benchFlow(), nil) }

func BenchmarkScanMessage(b *testing.B) {
	m := benchMessage()
	b.SetBytes(int64(len(m)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ScanMessage(m, DefaultLimits); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMapEntries(b *testing.B) {
	m := benchMessage()
	s, err := ScanMessage(m, DefaultLimits)
	if err != nil {
		b.Fatal(err)
	}
	annotations := s.MessageAnnotations.Of(m)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for key, raw := range MapEntries(annotations) {
			n += len(key) + len(raw)
		}
		if n == 0 {
			b.Fatal("empty")
		}
	}
}

func BenchmarkPropertiesField(b *testing.B) {
	m := benchMessage()
	s, err := ScanMessage(m, DefaultLimits)
	if err != nil {
		b.Fatal(err)
	}
	properties := s.Properties.Of(m)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := PropertiesField(properties, FieldGroupID); !ok {
			b.Fatal("missing")
		}
	}
}

// BenchmarkBuildDelivery measures adding the broker's sections to a stored message for a delivery.
func BenchmarkBuildDelivery(b *testing.B) {
	buf := make([]byte, 0, 512)
	h := &Header{Durable: Some(true), Priority: Some(uint8(4)), DeliveryCount: Some(uint32(0))}
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendHeader(buf[:0], h)
		var mark int
		buf, mark = BeginMap(AppendDescriptor(buf, SectionMessageAnnotations))
		buf = AppendTimestamp(AppendSymbol(buf, "x-opt-enqueued-time"), 1700000000000)
		buf = appendLong(AppendSymbol(buf, "x-opt-sequence-number"), 123456)
		buf = AppendTimestamp(AppendSymbol(buf, "x-opt-locked-until"), 1700000030000)
		buf = EndMap(buf, mark, 3)
	}
}
