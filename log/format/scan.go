package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Scanner reads a log from its first frame on and knows what a good next frame looks like.
type Scanner struct {
	Win       Window
	Partition PartitionID
	Tag       uint32

	Chapter uint32
	Fresh   bool      // at the first frame of a chapter
	LSN     event.LSN // of the next frame
	Chain   uint32
	Epoch   Epoch
	Boot    string
	Newest  event.Time // of the newest record
	Durable event.LSN  // everything below was synced when one of the frames was written
	Index   uint64     // of the next frame in its chapter

	Frames, Records uint64
	Bytes           int64
	Erased          uint64 // frames without all of their bodies

	// Known means that the log was judged before. A frame is good if its header belongs at this
	// place; the rest of it is not read.
	Known bool
	// Each is called by Advance with every good frame, before the scanner moves past it, and its
	// offset in the window's file; it may be nil. Advance returns its error with a good verdict.
	Each func(off int64, h *Header) error

	Watch map[event.LSN]Passed // places to check, set when the scanner passes them
}

// Passed is the result of a scan at an LSN.
type Passed struct {
	// a frame ends there; otherwise nothing is known of it, and no chain is right
	There bool
	Chain uint32 // of that frame
}

// Verdict is the judgment of a place where a frame was expected.
type Verdict struct {
	Good   bool
	Reason string // why it is bad
	// its header is intact, and belongs to this place, partition, chapter and namespace
	Ours bool

	intact bool // its header is intact
	// … and belongs to this place, and continues the chain and epoch of the previous frame
	linked bool
	erased bool  // it is good, but some of its bodies are missing and cannot be compared
	entry  int64 // … and its prefix and length are right: bytes of the entry; else 0
}

// Judge judges the bytes at off, where the scanner's next frame is expected.
func (s *Scanner) Judge(off int64, h *Header) (Verdict, error) {
	if s.Known {
		return s.recognize(off, h)
	}
	rest := s.Win.Size - off
	if rest < BodiesAt {
		return Verdict{Reason: fmt.Sprintf("%d bytes are less than a frame", rest)}, nil
	}
	p, err := s.Win.Bytes(off, BodiesAt)
	if err != nil {
		return Verdict{}, err
	}
	intact, err := h.get(p[PrefixSize:])
	if err != nil {
		return Verdict{}, err
	}
	if !intact {
		return Verdict{Reason: "no intact frame header"}, nil
	}
	v := Verdict{intact: true}
	if v.Reason = s.place(h); v.Reason != "" {
		return v, nil
	}
	v.Ours = true
	if v.Reason = s.link(h); v.Reason != "" {
		return v, nil
	}
	v.linked = true
	if h.Length > MaxFrame {
		v.Reason = fmt.Sprintf("frame of %d bytes exceeds the limit", h.Length)
	} else if !prefixOK(p, h.Length) {
		v.Reason = "entry prefix is wrong"
	} else if v.entry = h.Entry(); v.entry > rest {
		v.Reason = fmt.Sprintf("frame needs %d bytes, %d are there", v.entry, rest)
	}
	if v.Reason != "" {
		return v, nil
	}
	v.erased, v.Reason, err = s.bodies(off, h)
	if err == nil && v.Reason == "" {
		v.Reason, err = s.records(off, h)
	}
	v.Good = v.Reason == "" && err == nil
	return v, err
}

// recognize does the same as Judge for a log that was judged before.
func (s *Scanner) recognize(off int64, h *Header) (Verdict, error) {
	p, err := s.Win.Bytes(off, BodiesAt)
	if err != nil {
		return Verdict{}, err
	}
	intact, err := h.Decode(p)
	if err != nil {
		return Verdict{}, err
	}
	if !intact || s.place(h) != "" || h.Entry() > s.Win.Size-off {
		return Verdict{Reason: "frame header differs from the recovered one"}, nil
	}
	return Verdict{Good: true}, nil
}

// place returns what is wrong with the place in an intact header.
func (s *Scanner) place(h *Header) string {
	switch {
	case h.Tag != s.Tag:
		return "frame belongs to another namespace"
	case h.Partition != s.Partition:
		return fmt.Sprintf("frame belongs to partition %d", h.Partition)
	case h.Chapter != s.Chapter:
		return fmt.Sprintf("frame belongs to chapter %d", h.Chapter)
	case h.LSN != s.LSN:
		return fmt.Sprintf("frame belongs to LSN %d", h.LSN)
	}
	return ""
}

// link returns why an intact header does not continue the previous frame.
func (s *Scanner) link(h *Header) string {
	epoch := s.Epoch
	if h.Kind == EpochStart {
		epoch++
		if !s.Fresh {
			return "epoch starts inside a chapter"
		}
	}
	switch {
	case h.Epoch != epoch || epoch == 0:
		return fmt.Sprintf("epoch is %d, not %d", h.Epoch, epoch)
	case h.Chain != s.Chain:
		return "chain is broken: it does not follow the frame before it"
	}
	return ""
}

// bodies compares the checksum of a frame's bodies, unless some of them are erased. The rest of a
// frame does not depend on them.
func (s *Scanner) bodies(off int64, h *Header) (erased bool, reason string, err error) {
	sum, err := s.Win.Sum(off+BodiesAt, int64(h.Bodies))
	switch {
	case errors.Is(err, event.ErrErased):
		return true, "", nil
	case err == nil && !sumOK(sum, h.BodiesSum):
		return false, "checksum of the bodies does not match", nil
	}
	return false, "", err
}

func (s *Scanner) records(off int64, h *Header) (string, error) {
	if sum, err := s.Win.Sum(off+h.RecordsAt(), int64(h.Records)); err != nil {
		return "", err
	} else if !sumOK(sum, h.RecordSum) {
		return "checksum of the records does not match", nil
	}
	end := h.RecordsAt() + int64(h.Records)
	pad, err := s.Win.Bytes(off+end, int(h.Entry()-end))
	if err != nil {
		return "", err
	}
	for _, b := range pad {
		if b != 0 {
			return "padding is not zero", nil
		}
	}
	return "", nil
}

// take moves past a good frame at off.
func (s *Scanner) take(off int64, h *Header) error {
	if h.Kind == EpochStart && !s.Known {
		if h.Records > 256 {
			return fmt.Errorf("boot id of %d bytes", h.Records)
		}
		p, err := s.Win.Bytes(off+h.RecordsAt(), int(h.Records))
		if err != nil {
			return err
		}
		s.Boot, s.Epoch = string(p), h.Epoch
	}
	s.LSN, s.Chain, s.Fresh = h.Next(), h.Sum, false
	if h.Count > 0 {
		s.Newest = h.Newest() // not the latest: after a ClockSet time continues earlier
	}
	s.Durable = max(s.Durable, h.Durable)
	s.Index++
	s.Frames++
	s.Records += uint64(h.Count)
	s.Bytes += h.Entry()
	if _, ok := s.Watch[s.LSN]; ok {
		s.Watch[s.LSN] = Passed{true, s.Chain}
	}
	return nil
}

// Advance reads the window's file, whose first byte has the address base, from the scanner's LSN to
// the end or the first bad frame. It returns the place where it stopped, the verdict there, and the
// header in h.
func (s *Scanner) Advance(ctx context.Context, base event.LSN, h *Header) (int64, Verdict, error) {
	for s.LSN < base+event.LSN(s.Win.Size) {
		off := int64(s.LSN - base)
		if err := ctx.Err(); err != nil {
			return off, Verdict{}, err
		}
		v, err := s.Judge(off, h)
		if err != nil || !v.Good {
			return off, v, err
		}
		if s.Each != nil {
			if err := s.Each(off, h); err != nil {
				return off, v, err
			}
		}
		if err := s.take(off, h); err != nil {
			v.Good = false
			return off, v, err
		}
		if v.erased {
			s.Erased++
		}
	}
	return s.Win.Size, Verdict{Good: true}, nil
}

// findPromise looks after the bad frame at off for a header that says it was durable. base is the
// address of the file's first byte. It returns the place of such a header, or -1 (log-format.md 5.3
// rule 3).
func (s *Scanner) findPromise(off int64, base event.LSN) (int64, error) {
	bad := base + event.LSN(off)
	for at := off; at+BodiesAt <= s.Win.Size; {
		p, err := s.Win.Bytes(at, BodiesAt)
		if err != nil {
			return 0, err
		}
		p = p[PrefixSize:]
		if [4]byte(p) != frameMagic {
			at += 8
			continue
		}
		var h Header
		intact, err := h.get(p)
		if err != nil || !intact || h.Tag != s.Tag || h.Partition != s.Partition || h.Chapter != s.Chapter ||
			h.LSN != base+event.LSN(at) || h.Epoch < s.Epoch {
			// also for a header of a newer version, which cannot be of this log because the earlier
			// ones are not
			at += 8
			continue
		}
		if h.Durable > bad {
			return at, nil
		}
		// never look for headers inside an entry of this log: its bodies come from clients
		at += h.Entry()
	}
	return -1, nil
}

// shortPrefix reports whether the bytes from off on can be the beginning of the one frame that was
// being written when the process died (rule 4). An entry that is complete is no such beginning,
// whatever its last bytes are.
func (s *Scanner) shortPrefix(off, written int64, v Verdict) (bool, error) {
	if v.entry > s.Win.Size-off || v.entry > 0 && written <= v.entry-8 {
		return true, nil
	}
	if v.intact || written >= BodiesAt {
		return false, nil
	}
	p, err := s.Win.Bytes(off, int(written))
	if err != nil {
		return false, err
	}
	// The fields of the header that were known before it was written.
	want := Header{Partition: s.Partition, Chapter: s.Chapter, LSN: s.LSN, Chain: s.Chain, Tag: s.Tag}
	var w [headerSize]byte
	want.put(w[:])
	for _, field := range [][2]int{{0, 5}, {24, 32}, {40, 48}, {64, 72}} {
		lo, hi := PrefixSize+field[0], min(PrefixSize+field[1], len(p))
		if lo < hi && !bytes.Equal(p[lo:hi], w[lo-PrefixSize:hi-PrefixSize]) {
			return false, nil
		}
	}
	if len(p) >= PrefixSize+12 && !prefixOK(p, le.Uint32(p[PrefixSize+8:])&^7) {
		return false, nil
	}
	return true, nil
}

// Classify judges the bad frame at off of the last file: "" if it and everything after it may be
// cut, else why it is corruption (log-format.md 5.3). written is the number of bytes that are not
// preallocated room.
func (s *Scanner) Classify(off, written int64, base event.LSN, v Verdict, sameBoot bool) (string, error) {
	if v.intact && !v.linked {
		return v.Reason, nil
	}
	at, err := s.findPromise(off, base)
	if err != nil {
		return "", err
	}
	if at >= 0 {
		return fmt.Sprintf("%s, but the frame at byte %d says it was durable", v.Reason, at), nil
	}
	if sameBoot {
		short, err := s.shortPrefix(off, written, v)
		if err != nil {
			return "", err
		}
		if !short {
			return v.Reason + ", and the operating system has not been restarted since it was written", nil
		}
	}
	return "", nil
}
