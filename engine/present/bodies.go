package present

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Reader reads stored messages, whose form only the protocol knows. It has one owner at a time.
type Reader interface {
	// Properties fills in the properties of a message that filters read and a sender can set, with
	// the later changes, the oldest first. stored may be cut anywhere in the body.
	Properties(stored []byte, changes [][]byte, into *filter.Message) error
	// Body returns the bytes of a body. text is nil if it has none: kind is value, sequence or none
	// then. The text is valid until the next call.
	Body(stored []byte) (text []byte, kind string, err error)
}

const (
	// windowSize is how much is read at once: messages that were sent in a row are next to each
	// other.
	windowSize = 128 << 10
	// maxStored is the maximum size of a message that is read whole: it bounds the memory.
	maxStored = 16 << 20
	// maxProperties is the maximum size of all application properties in a row, bytes.
	maxProperties = 64 << 10
)

// A window is the part of a log that was read last.
type window struct {
	buf       []byte
	partition int
	at        event.Position
	n         int
}

var windows = sync.Pool{New: func() any { return new([windowSize]byte) }}

// A bodyReader reads the messages of one scan, each when it is first needed.
type bodyReader struct {
	src       Source
	reader    Reader // nil: no message can be read
	partition int
	// changes are read from a place of their own: they are younger than the messages
	stored, changed       window
	pooled, changedPooled *[windowSize]byte

	m     *index.Message // the current message
	bytes []byte         // its bytes; nil: not read yet
	parts [][]byte       // its changes
	props filter.Message
	text  []byte // of changes
	// whether props are those of m, and why m cannot be read
	hasProps bool
	unread   string
}

// close gives back the memory that others can use.
func (r *bodyReader) close() {
	for _, p := range []**[windowSize]byte{&r.pooled, &r.changedPooled} {
		if *p != nil {
			windows.Put(*p)
			*p = nil
		}
	}
}

// look makes a message the current one.
func (r *bodyReader) look(m *index.Message) { r.m, r.bytes, r.hasProps, r.unread = m, nil, false, "" }

// fail notes why the current message cannot be read, and returns that.
func (r *bodyReader) fail(err error) string {
	switch {
	case errors.Is(err, event.ErrErased):
		r.unread = "its body is no longer kept: the message was settled meanwhile, or its body was erased"
	case errors.Is(err, ErrAway):
		r.unread = "it cannot be read now; try again"
	default:
		r.unread = fmt.Sprintf("it cannot be read: %.300s", err)
	}
	return r.unread
}

// read reads the current message. A long one is read only in part.
func (r *bodyReader) read(ctx context.Context) error {
	if r.bytes != nil {
		return nil
	}
	if r.reader == nil {
		return errors.New("there is no reader of messages")
	}
	if r.pooled == nil {
		r.pooled = windows.Get().(*[windowSize]byte)
		r.stored.buf = r.pooled[:]
	}
	var err error
	r.bytes, err = r.stored.read(ctx, r.src, r.partition, r.m.Body)
	return err
}

// properties returns the properties of the current message. unread tells why it cannot be read; "":
// it can.
func (r *bodyReader) properties(ctx context.Context) (m *filter.Message, unread string) {
	if r.hasProps || r.unread != "" {
		return &r.props, r.unread
	}
	r.props.Reset()
	err := r.read(ctx)
	if err == nil {
		err = r.readChanges(ctx)
	}
	if err == nil {
		err = r.reader.Properties(r.bytes, r.parts, &r.props)
	}
	if err != nil {
		r.props.Reset()
		return &r.props, r.fail(err)
	}
	r.hasProps = true
	setKnown(&r.props, r.m)
	return &r.props, ""
}

// readChanges reads the changes of properties.
func (r *bodyReader) readChanges(ctx context.Context) error {
	r.parts, r.text = r.parts[:0], r.text[:0]
	if len(r.m.Changes) == 0 {
		return nil
	}
	if r.changedPooled == nil {
		r.changedPooled = windows.Get().(*[windowSize]byte)
		r.changed.buf = r.changedPooled[:]
	}
	for _, b := range r.m.Changes {
		part, err := r.changed.read(ctx, r.src, r.partition, b)
		if err != nil {
			return err
		}
		from := len(r.text)
		r.text = append(r.text, part...) // earlier parts keep the array that they are in
		r.parts = append(r.parts, r.text[from:len(r.text):len(r.text)])
	}
	return nil
}

// body returns the bytes of the body of the current message, nil if it has none, and its kind.
func (r *bodyReader) body(ctx context.Context) (text []byte, kind, unread string) {
	if r.unread != "" {
		return nil, "", r.unread
	}
	if r.m.Body.Size > maxStored {
		return nil, "", fmt.Sprintf("it has %d bytes; bodies of messages above %d bytes are not read", r.m.Body.Size, maxStored)
	}
	err := r.read(ctx)
	if err == nil {
		text, kind, err = r.reader.Body(r.bytes)
	}
	if err != nil {
		return nil, "", r.fail(err)
	}
	return text, kind, ""
}

// fill adds the content of the current message to its row.
func (r *bodyReader) fill(ctx context.Context, row *rows.Message) {
	m, unread := r.properties(ctx)
	if unread != "" {
		row.Unread = unread
		return
	}
	size := 0
	for i := range m.User {
		size += len(m.User[i].Name) + len(m.User[i].Value.Text)
	}
	if size > maxProperties {
		row.Unread = fmt.Sprintf("its properties have %d bytes; at most %d are shown", size, maxProperties)
		return
	}
	row.Content = newContent(m)
	text, kind, unread := r.body(ctx)
	if row.Unread = unread; unread != "" {
		return
	}
	row.Content.BodyType = kind
	if len(text) > rows.MaxBody {
		row.Content.BodySize = len(text)
		text = cut(text, rows.MaxBody)
	}
	if text != nil {
		row.Content.Body = append(rows.Body{}, text...)
	}
}

// cut returns the first bytes of a text, at most n. It does not cut a character of UTF-8 in two.
func cut(text []byte, n int) []byte {
	for end := n; end > n-4; end-- {
		if text[end]&0xc0 != 0x80 { // a character begins here
			return text[:end]
		}
	}
	return text[:n]
}

// read returns the bytes of a blob after comparing them with its checksum; of a long one, the first
// bytes without comparing. They are valid until the next call.
func (w *window) read(ctx context.Context, src Source, partition int, b event.Blob) ([]byte, error) {
	size := int(min(b.Size, maxStored))
	if size == 0 {
		return []byte{}, nil
	}
	if from := b.Position - w.at; w.partition == partition && b.Position >= w.at && uint64(from)+uint64(size) <= uint64(w.n) {
		if data := w.buf[from : int(from)+size]; b.Matches(data) {
			return data, nil
		}
	}
	// what lies far from the last place is most likely alone
	want := size
	if w.partition == partition && b.Position >= w.at && b.Position-w.at <= event.Position(w.n+windowSize) {
		want = max(size, windowSize)
	}
	if len(w.buf) < want {
		w.buf = make([]byte, want)
	}
	w.partition, w.at, w.n = partition, b.Position, 0
	n, err := src.Body(ctx, partition, b, w.buf[:want])
	if err == nil && n < size {
		err = fmt.Errorf("%d bytes are missing at position %d", size-n, b.Position)
	}
	if err != nil {
		return nil, err
	}
	w.n = n
	return w.buf[:size], nil
}
