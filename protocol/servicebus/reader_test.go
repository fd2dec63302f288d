package servicebus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// choppy is a connection whose stream arrives in pieces of given sizes, over and over; without
// sizes, as a whole.
type choppy struct {
	net.Conn
	stream []byte
	sizes  []byte // each one less than the bytes of a piece
	reads  int
}

func (c *choppy) Read(dst []byte) (int, error) {
	if len(c.stream) == 0 {
		return 0, io.EOF
	}
	n := len(c.stream)
	if len(c.sizes) > 0 {
		n = int(c.sizes[c.reads%len(c.sizes)]) + 1
	}
	n = copy(dst, c.stream[:min(n, len(c.stream))])
	c.stream = c.stream[n:]
	c.reads++
	return n, nil
}

// readAll returns the results of a reader for a stream, and its end. Every result must have whole
// frames.
func readAll(t *testing.T, source *choppy, maxFrame uint32) (handed []byte, end error) {
	t.Helper()
	quit := make(chan struct{})
	defer close(quit)
	r := newReader(source, quit, maxFrame)
	go r.run()
	for end == nil {
		in := <-r.out
		for data := in.data; len(data) > 0; {
			size := frameSize(data)
			if uint64(size) > uint64(len(data)) || size < amqp.FrameHeaderSize || size > maxFrame {
				t.Fatalf("a frame of %d bytes, of which %d were handed on", size, len(data))
			}
			data = data[size:]
		}
		handed, end = append(handed, in.data...), in.err
		in.chunk.Release()
	}
	return handed, end
}

// FuzzReader cuts a stream as it comes, in one piece and in many: the frames and the error must be
// the same.
func FuzzReader(f *testing.F) {
	stream := amqp.AppendSASLFrame(slices.Clone(amqp.ProtocolSASL[:]), &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"PLAIN"}})
	stream = append(stream, amqp.ProtocolAMQP[:]...)
	f.Add(slices.Clone(stream), []byte{0})
	stream = amqp.AppendFrame(stream, 7, &amqp.Transfer{Handle: 1, DeliveryTag: []byte("tag")}, make([]byte, 300))
	stream = amqp.AppendEmptyFrame(stream)
	f.Add(stream, []byte{1, 7, 200, 0, 3})
	f.Add(slices.Concat(stream, amqp.ProtocolAMQP[:]), []byte{8})
	f.Add(slices.Concat(stream, []byte{0, 0, 0, 7, 2, 0, 0, 0}), []byte{255})
	f.Add(slices.Concat(stream, []byte{0, 0, 2, 1, 2, 0, 0, 0}), []byte{6})
	f.Add([]byte{0, 0, 0, 12, 3, 0, 0, 1, 9, 9, 9, 9, 0, 0, 0, 12, 4, 0, 0, 1}, []byte{3})
	f.Fuzz(func(t *testing.T, stream, sizes []byte) {
		const limit = 512
		want, wantErr := readAll(t, &choppy{stream: stream}, limit)
		got, gotErr := readAll(t, &choppy{stream: stream, sizes: sizes}, limit)
		if !bytes.Equal(got, want) || gotErr.Error() != wantErr.Error() {
			t.Fatalf("in pieces %x, %v\nas a whole %x, %v", got, gotErr, want, wantErr)
		}
	})
}

// WP-012, reliability.md S18: a frame one byte below, at and above the maximum. One that is too
// large is refused by its size alone, at its place in the stream.
func TestReaderLimit(t *testing.T) {
	t.Parallel()
	const limit = 512
	for size, ok := range map[int]bool{limit - 1: true, limit: true, limit + 1: false} {
		stream := slices.Clone(amqp.ProtocolAMQP[:])
		stream = append(binary.BigEndian.AppendUint32(stream, uint32(size)), 2, 0, 0, 0)
		if ok {
			stream = append(stream, make([]byte, size-amqp.FrameHeaderSize)...)
		}
		handed, err := readAll(t, &choppy{stream: stream}, limit)
		var framing *amqp.FramingError
		switch {
		case ok && (!errors.Is(err, io.EOF) || len(handed) != len(stream)):
			t.Errorf("%d bytes: %d handed on, want all; %v", size, len(handed), err)
		case !ok && (!errors.As(err, &framing) || framing.Offset != 8 || len(handed) != 8):
			t.Errorf("%d bytes: %d handed on, want the header alone; %v", size, len(handed), err)
		}
	}
}

// AMQP 2.3: what stands between a frame's header and its body means nothing to this version.
func TestExtendedHeader(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial()
		p.raw(amqp.ProtocolAMQP[:])
		p.next()
		frame := slices.Insert(amqp.AppendFrame(nil, 0, &amqp.Open{ContainerID: "c"}, nil), amqp.FrameHeaderSize, []byte("more")...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)))
		frame[4]++ // words before the body
		p.raw(frame)
		expect[*amqp.Open](p)
	})
}
