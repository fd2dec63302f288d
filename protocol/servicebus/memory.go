package servicebus

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// What a connection keeps of what its peer said for longer than a frame is counted, with the texts
// in it, and bounded by Limits.Held and, before the first valid token, by Limits.BufferedLogin
// (reliability.md P23, 8). The costs are what was measured, rounded up.
const (
	sessionCost  = 1 << 10
	linkCost     = 3 << 10 // with what the engine knows of it
	tokenCost    = 1 << 10 // a claim
	detachedCost = 512     // a link that is refused, until the peer has detached it
	sendCost     = 384     // a message in a send without an answer, beside its bytes
	deliveryCost = 256     // a message in the engine's answer to a request, beside its bytes
	answerCost   = 64      // an answer that waits for credit, beside its bytes
)

// Texts of a peer that are kept, bytes. Names of links are compared, so longer ones are refused;
// the others are shown, and clipped.
const (
	maxLinkName = 1024
	maxPeerText = 256 // container-id, and what the client calls itself
)

// earlyShare is how many times Limits.BufferedLogin a peer may send before its first valid token.
// It needs a few kilobytes, and what it sends costs time that others wait for.
const earlyShare = 4

// kept is the beginning of a peer's text, at most n bytes of it, in memory of its own.
func kept(s string, n int) string { return strings.Clone(message.Short(s, n)) }

// memory is how many bytes a connection keeps for its peer. What waits for the engine is counted by
// [pendings], and what waits for its last frame by [unfinished].
type memory struct {
	allowed  *allowance
	held     int // that sessions and links take
	answered int // of answers that wait for the peer's credit
	staged   int // in transactions
	partly   int // of deliveries that are partly written

	share *budget.Share // of the process's memory
	// bytes that the share has to cover: of the above and of what is counted elsewhere
	kept     func() int
	reserved int  // taken from the share for it
	short    bool // memory is short, and the share has more than it may have
}

// hasRoom reports whether sessions and links stay within what a connection may have with that many
// bytes more.
func (m *memory) hasRoom(bytes int) bool { return m.held+bytes <= m.allowed.held() }

// mayHold reports whether sessions and links may take that many bytes more, now.
func (m *memory) mayHold(bytes int) bool { return m.hasRoom(bytes) && m.reserve(bytes) }

// hold counts bytes that sessions and links take; negative ones are given back.
func (m *memory) hold(bytes int) { m.held += bytes }

// queueAnswer counts an answer that waits for the peer's credit.
func (m *memory) queueAnswer(answer []byte) { m.answered += len(answer) + answerCost }

// dequeueAnswer is called when the answer leaves, or is thrown away.
func (m *memory) dequeueAnswer(answer []byte) { m.answered -= len(answer) + answerCost }

// answersWait reports whether so much waits for credit that nothing more is asked of the engine.
func (m *memory) answersWait() bool { return m.answered > m.allowed.limits.BufferedOut }

// answersPileUp reports whether the peer has asked for more answers than it may without taking
// them. One large answer may be over the limit: that a further one is refused is an answer, too.
func (m *memory) answersPileUp() bool {
	_, limit := m.allowed.buffers()
	if m.allowed.loggedIn {
		limit *= 2
	}
	return m.answered > limit
}

// mayStage reports whether transactions may keep that many bytes more.
func (m *memory) mayStage(bytes int) bool { return m.staged+bytes <= m.allowed.limits.TransactionBytes }

// stage counts bytes that transactions keep; negative ones are given back.
func (m *memory) stage(bytes int) { m.staged += bytes }

// hold counts bytes as kept for the link, until it is gone.
func (l *link) hold(bytes int) {
	l.held += bytes
	l.c.memory.hold(bytes)
}

// free takes the link out of the count.
func (l *link) free() { l.hold(-l.held) }

// cost is what the link takes when it is attached. Its texts have been cut to their limits.
func (l *link) cost(a *amqp.Attach) int {
	return linkCost + len(l.name) + len(l.at.host) + len(l.at.text) + len(l.at.path) + len(replyAddress(a)) + len(l.transfer.to.host+l.transfer.to.text+l.transfer.to.path)
}

// bare drops all that a refused link has of what the peer wrote: it only waits for the peer's
// detach.
func (l *link) bare() {
	*l = link{s: l.s, c: l.c, handle: l.handle, detached: true, active: l.active, held: l.held}
}

// replyAddress is the target address by which answers find their way to a receiver (2.3); an
// address longer than any may be is not kept.
func replyAddress(a *amqp.Attach) string {
	t, ok := a.Target.(*amqp.Target)
	if !ok || t == nil {
		return ""
	}
	address, _ := t.Address.(string)
	if len(address) > maxAddress {
		return ""
	}
	return strings.Clone(address)
}
