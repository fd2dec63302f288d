package amqp

// FrameSplitter cuts a stream of bytes into protocol headers and frames. However the bytes are chunked, the result is the
// same. It belongs to one goroutine. A reader's loop:
//
//	n, err := conn.Read(s.Space())
//	s.Commit(n)
//	for {
//		f, ok, err := s.Next()
//		…
//	}
type FrameSplitter struct {
	buf  []byte
	r, w int // unread bytes are buf[r:w]

	max      uint32 // bytes a frame may have
	consumed int64  // bytes of the stream in front of buf[r]
	err      *FramingError
}

// firstBuffer is the size of the buffer before a larger frame has come (reliability 8).
const firstBuffer = 4096

// NewFrameSplitter returns a splitter that refuses frames of more than maxFrameSize bytes.
func NewFrameSplitter(maxFrameSize uint32) *FrameSplitter { return &FrameSplitter{max: maxFrameSize} }

// SetMaxFrameSize changes the limit, from the next frame on: it is lower before login (reliability 8).
func (s *FrameSplitter) SetMaxFrameSize(bytes uint32) { s.max = bytes }

// Buffered returns how many bytes have come and not been taken.
func (s *FrameSplitter) Buffered() int { return s.w - s.r }

// Feed adds a copy of p to the stream. Frames taken before become invalid.
func (s *FrameSplitter) Feed(p []byte) {
	s.room(len(p))
	s.w += copy(s.buf[s.w:], p)
}

// Space returns room for the next bytes of the stream, which the caller fills and then commits. It is never empty. Frames
// taken before become invalid. The buffer grows with the bytes that have arrived and not with what a frame announces
// (reliability S15); taking all frames between two calls keeps it below twice the largest frame.
func (s *FrameSplitter) Space() []byte {
	if free := len(s.buf) - s.w; s.r == s.w || free < len(s.buf)/4 {
		s.compact()
	}
	if s.w == len(s.buf) {
		s.room(1)
	}
	return s.buf[s.w:]
}

// Commit adds the first n bytes of the last Space to the stream.
func (s *FrameSplitter) Commit(n int) { s.w += n }

// room makes room for n bytes behind w.
func (s *FrameSplitter) room(n int) {
	if len(s.buf)-s.w < n {
		s.compact()
	}
	if len(s.buf)-s.w >= n {
		return
	}
	grown := make([]byte, max(firstBuffer, 2*len(s.buf), s.w+n))
	copy(grown, s.buf[:s.w])
	s.buf = grown
}

// compact moves the unread bytes to the front of the buffer.
func (s *FrameSplitter) compact() {
	copy(s.buf, s.buf[s.r:s.w])
	s.r, s.w = 0, s.w-s.r
}

// Header takes a protocol header, eight bytes, if they have come. Only the connection knows when one is due.
func (s *FrameSplitter) Header() (h ProtocolHeader, ok bool) {
	if s.w-s.r < len(h) {
		return h, false
	}
	copy(h[:], s.buf[s.r:])
	s.take(len(h))
	return h, true
}

// Next takes the next frame; ok is false when it has not come whole. The body is valid until the next Feed or Space. An
// error is a *FramingError and stays: where the next frame would begin is unknown.
func (s *FrameSplitter) Next() (f Frame, ok bool, err error) {
	if s.err != nil {
		return Frame{}, false, s.err
	}
	b := s.buf[s.r:s.w]
	if len(b) < FrameHeaderSize {
		return Frame{}, false, nil
	}
	f.FrameHeader = frameHeader(b)
	reason := f.fault()
	if f.Size > s.max {
		reason = "frame larger than the maximum"
	}
	if reason != "" {
		s.err = &FramingError{Offset: s.consumed, Reason: reason}
		return Frame{}, false, s.err
	}
	if uint64(len(b)) < uint64(f.Size) {
		return Frame{}, false, nil
	}
	f.Body = b[4*int(f.DOFF) : f.Size : f.Size]
	s.take(int(f.Size))
	return f, true, nil
}

func (s *FrameSplitter) take(n int) {
	s.r += n
	s.consumed += int64(n)
}
