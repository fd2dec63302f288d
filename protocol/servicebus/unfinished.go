package servicebus

import "slices"

// unfinished is the deliveries of which frames are missing and of which something is kept. The
// oldest one always goes on, up to the size that its entity allows; the others share what remains
// of a bound (reliability.md 8, docs/decisions/0083). Before the login none goes on beyond the
// bound.
type unfinished struct {
	senders []*sender // in the order in which their deliveries began
	bytes   int       // kept of all of them
}

// fourLargest is how many of the largest messages that it may send a connection may leave
// unfinished, where that is more than Limits.BufferedIn.
const fourLargest = 4

// readRoom is what a large buffer leaves of the share for what is read next: frames for which there
// is no memory are cut, and then the delivery that the buffer is for would be lost as well.
const readRoom = 2 * largeChunk

// begin enters the delivery of a sender.
func (u *unfinished) begin(s *sender) { u.senders = append(u.senders, s) }

// end takes it out: it is complete, or thrown away.
func (u *unfinished) end(s *sender) {
	i := slices.Index(u.senders, s)
	u.senders = slices.Delete(u.senders, i, i+1)
	u.bytes -= s.size
}

// oldest reports whether no other unfinished delivery began before that of the sender.
func (u *unfinished) oldest(s *sender) bool { return len(u.senders) == 0 || u.senders[0] == s }

// mayJoin reports whether the sender's delivery may have bytes more kept until its last frame
// comes.
func (s *sender) mayJoin(bytes int) bool {
	c := s.l.c
	u := &c.unfinished
	bound, _ := c.allowed.buffers()
	if !c.allowed.loggedIn {
		return u.bytes+bytes <= bound
	}
	if u.oldest(s) {
		return true
	}
	largest := c.links.largest()
	return u.bytes-u.senders[0].size+bytes <= max(bound, fourLargest*largest)-largest
}

// shedNewest throws away the delivery that began last, and reports whether there was one.
func (u *unfinished) shedNewest() bool {
	if len(u.senders) == 0 {
		return false
	}
	s := u.senders[len(u.senders)-1]
	s.discard()
	s.skipping, s.starved = true, true
	return true
}

// buffer returns memory for at least need bytes of the delivery, or nil where there is none. Its
// size is a half, a quarter and so on of the largest message, so that a message that grows into a
// larger buffer has no more than one and a half of that at a time. For the oldest delivery the
// newest ones give way.
func (s *sender) buffer(need int) *chunk {
	u, size := &s.l.c.unfinished, max(s.maxSize, need)
	for size/2 >= max(need, smallChunk) {
		size /= 2
	}
	for {
		if grown := s.takeBuffer(size, need); grown != nil {
			return grown
		}
		if !u.oldest(s) || len(u.senders) < 2 {
			return nil
		}
		u.shedNewest()
	}
}

// takeBuffer returns a buffer of a size, or where there is no memory for that, one that has little
// more than is needed: with no more, each frame of a large message would have all of it copied.
func (s *sender) takeBuffer(size, need int) *chunk {
	share := s.l.c.memory.share
	if size <= largeChunk {
		if c := paidChunk(size, share); c != nil {
			return c
		}
		return exactChunk(need, share)
	}
	for _, size := range [...]int{size, min(need+need/8, size)} {
		if share.Take(size + readRoom) {
			share.Give(readRoom)
			return ownChunk(size, share)
		}
	}
	return nil
}
