package loop

import "sync/atomic"

// credit is how many more deliveries a receiver link takes, and how far a drain has come. All ports
// of the link share it: they take from it in their own loops. It is one word, so each step is taken
// by one port and seen by all:
//
//	bits 63 … 37   flows: number of flows so far, modulo 2^27
//	bits 36 … 32   owing: ports that have not answered the drain; 0: there is no drain
//	bits 31 …  0   left: limit of the newest flow, less deliveries and credit given up by drains;
//	               may be negative
//
// The flows of a link reach every port in the same order, but at different times. The first port
// that a flow reaches puts it in force; the others find it in force. So every port knows its
// credit, and what it does about an older flow has no effect.
type credit struct{ word atomic.Uint64 }

const (
	flowBits  = 27
	flowMask  = 1<<flowBits - 1
	owingBits = 5
	owingMask = 1<<owingBits - 1 // an entity has 16 partitions at most
)

// creditState is the decoded word of a credit.
type creditState struct {
	flows uint32
	owing uint32
	left  int32
}

func (s creditState) word() uint64 {
	return uint64(s.flows)<<(32+owingBits) | uint64(s.owing)<<32 | uint64(uint32(s.left))
}

func stateOf(word uint64) creditState {
	return creditState{flows: uint32(word >> (32 + owingBits)), owing: uint32(word>>32) & owingMask, left: int32(uint32(word))}
}

func (c *credit) state() creditState { return stateOf(c.word.Load()) }

// nextFlow returns the number of the next flow.
func nextFlow(n uint32) uint32 { return (n + 1) & flowMask }

// isOlderFlow reports whether flow a came before flow b, in serial number arithmetic.
func isOlderFlow(a, b uint32) bool { return int32((a-b)<<(32-flowBits)) < 0 }

// left returns how many deliveries the link takes now.
func (c *credit) left() int32 { return c.state().left }

// flow puts a flow in force that adds credit, or withdraws it if more is negative. It changes
// nothing if another port has done so already. If drain is set, that many ports have to answer it.
// It returns what is left, of this flow or a newer one.
func (c *credit) flow(number uint32, more int32, drain bool, ports int) (left int32) {
	for {
		word := c.word.Load()
		s := stateOf(word)
		if !isOlderFlow(s.flows, number) {
			return s.left
		}
		s.flows, s.owing = number, 0
		s.left += more
		if drain {
			s.owing = uint32(ports)
		}
		if c.word.CompareAndSwap(word, s.word()) {
			return s.left
		}
	}
}

// take takes one credit for a delivery; false: none is left. A port that has answered the drain of
// a flow has to answer it again after this delivery: it is owing again, if the drain has not ended.
func (c *credit) take(flow uint32, answered bool) (ok, owing bool) {
	for {
		word := c.word.Load()
		s := stateOf(word)
		if s.left <= 0 {
			return false, false
		}
		s.left--
		if owing = answered && s.flows == flow && s.owing > 0; owing {
			s.owing++
		}
		if c.word.CompareAndSwap(word, s.word()) {
			return true, owing
		}
	}
}

// drainStep is what a port learns when it has nothing more to deliver for a drain.
type drainStep uint8

const (
	drainOpen  drainStep = iota // other ports owe an answer
	drainOver                   // this was the last answer: the remaining credit is given up
	drainMoved                  // a newer flow has replaced the drain
)

// endDrain ends the drain of a flow if only the calling port owes an answer.
func (c *credit) endDrain(flow uint32) drainStep { return c.answer(flow, true) }

// answerDrain is a port's answer to the drain of a flow: all its deliveries for it have left.
func (c *credit) answerDrain(flow uint32) drainStep { return c.answer(flow, false) }

func (c *credit) answer(flow uint32, onlyLast bool) drainStep {
	for {
		word := c.word.Load()
		s := stateOf(word)
		step := drainOpen
		switch {
		case s.flows != flow || s.owing == 0:
			return drainMoved
		case s.owing == 1:
			s.owing, s.left, step = 0, 0, drainOver
		case onlyLast:
			return drainOpen
		default:
			s.owing--
		}
		if c.word.CompareAndSwap(word, s.word()) {
			return step
		}
	}
}

// close takes away the remaining credit: the link is detached. No flow follows.
func (c *credit) close() {
	for {
		word := c.word.Load()
		s := stateOf(word)
		s.left, s.owing = min(s.left, 0), 0
		if c.word.CompareAndSwap(word, s.word()) {
			return
		}
	}
}
