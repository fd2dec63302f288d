package servicebus

import "slices"

// unfinishedDeliveries holds the incomplete deliveries that have buffered bytes. The oldest one may
// always grow, up to the size that its entity allows; the others share the rest of a limit
// (reliability.md 8, docs/decisions/0083). Before the login none may grow beyond the limit.
type unfinishedDeliveries struct {
	senders []*sender // in the order in which their deliveries began
	bytes   int       // buffered of all deliveries
}

// fourLargest is the number of its largest allowed messages that a connection may leave unfinished,
// if that is more than Limits.BufferedIn.
const fourLargest = 4

// readRoom is the memory that a large buffer leaves in the share for the next reads: frames for
// which there is no memory are cut, and then the delivery of the buffer would be lost as well.
const readRoom = 2 * largeChunk

// begin adds the delivery of a sender.
func (u *unfinishedDeliveries) begin(s *sender) { u.senders = append(u.senders, s) }

// end removes it: it is complete, or dropped.
func (u *unfinishedDeliveries) end(s *sender) {
	i := slices.Index(u.senders, s)
	u.senders = slices.Delete(u.senders, i, i+1)
	u.bytes -= s.size
}

// oldest reports whether no other unfinished delivery began before the sender's.
func (u *unfinishedDeliveries) oldest(s *sender) bool {
	return len(u.senders) == 0 || u.senders[0] == s
}

// mayJoin reports whether that many more bytes of the sender's delivery may be kept until its last
// frame arrives.
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

// shedNewest drops the delivery that began last, and reports whether there was one.
func (u *unfinishedDeliveries) shedNewest() bool {
	if len(u.senders) == 0 {
		return false
	}
	s := u.senders[len(u.senders)-1]
	s.discard()
	s.skipping, s.starved = true, true
	return true
}

// buffer returns memory for at least need bytes of the delivery, or nil if there is none. Its size
// is a half, a quarter and so on of the largest message. So a message that grows into a larger
// buffer never takes more than one and a half times that. The newest deliveries are dropped to make
// room for the oldest.
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

// takeBuffer returns a buffer of that size or, if there is no memory for it, one with a little more
// than is needed. With no more than that, each frame of a large message would copy all of it.
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
