package servicebus

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// Data of the peer that a connection keeps for longer than a frame is counted, including its texts.
// Limits.Held bounds it and, before the first valid token, Limits.BufferedLogin (reliability.md
// P23, 8). The costs were measured and rounded up.
const (
	sessionCost  = 1 << 10
	linkCost     = 3 << 10 // including the engine's data of the link
	tokenCost    = 1 << 10 // a claim
	detachedCost = 512     // a refused link, until the peer has detached it
	sendCost     = 384     // a message in a send without an answer, without its bytes
	deliveryCost = 256     // a message in the engine's answer to a request, without its bytes
	answerCost   = 64      // an answer that waits for credit, without its bytes
)

// Limits of a peer's texts that are kept, in bytes. Names of links are compared, so longer ones are
// refused. The others are only shown, and clipped.
const (
	maxLinkName = 1024
	maxPeerText = 256 // container-id, and the client's name for itself
)

// earlyShare times Limits.BufferedLogin bounds the bytes that a peer may send before its first
// valid token. A login needs a few kilobytes, and handling more takes time that others wait for.
const earlyShare = 4

// cloneShort returns a copy of the first n bytes of a peer's text.
func cloneShort(s string, n int) string { return strings.Clone(message.Short(s, n)) }

// memory counts the bytes that a connection keeps for its peer. Bytes that wait for the engine are
// counted by [pendings], and those of incomplete deliveries by [unfinishedDeliveries].
type memory struct {
	allowed  *allowance
	held     int // of sessions and links
	answered int // of answers that wait for the peer's credit
	staged   int // in transactions
	partly   int // of partly written deliveries

	share *budget.Share // of the process's memory
	// bytes that the share has to cover: the above and those counted elsewhere
	kept     func() int
	reserved int  // taken from the share for them
	short    bool // memory is short, and the share has more than it may have
}

// hasRoom reports whether that many more bytes of sessions and links stay within the connection's
// limit.
func (m *memory) hasRoom(bytes int) bool { return m.held+bytes <= m.allowed.held() }

// mayHold reports whether sessions and links may take that many more bytes now.
func (m *memory) mayHold(bytes int) bool { return m.hasRoom(bytes) && m.reserve(bytes) }

// hold counts bytes of sessions and links; negative ones are freed.
func (m *memory) hold(bytes int) { m.held += bytes }

// queueAnswer counts an answer that waits for the peer's credit.
func (m *memory) queueAnswer(answer []byte) { m.answered += len(answer) + answerCost }

// dequeueAnswer is called when the answer is sent or dropped.
func (m *memory) dequeueAnswer(answer []byte) { m.answered -= len(answer) + answerCost }

// answersWait reports whether the bytes of answers that wait for credit exceed the limit. Then the
// engine is asked for nothing more.
func (m *memory) answersWait() bool { return m.answered > m.allowed.limits.BufferedOut }

// answersPileUp reports whether the peer has requested more answers than it may without taking
// them. One large answer may exceed the limit: the refusal of a further one is an answer as well.
func (m *memory) answersPileUp() bool {
	_, limit := m.allowed.buffers()
	if m.allowed.loggedIn {
		limit *= 2
	}
	return m.answered > limit
}

// mayStage reports whether transactions may keep that many more bytes.
func (m *memory) mayStage(bytes int) bool { return m.staged+bytes <= m.allowed.limits.TransactionBytes }

// stage counts bytes kept by transactions; negative ones are freed.
func (m *memory) stage(bytes int) { m.staged += bytes }

// hold counts bytes as kept for the link, until the link is gone.
func (l *link) hold(bytes int) {
	l.held += bytes
	l.c.memory.hold(bytes)
}

// free removes the link's bytes from the count.
func (l *link) free() { l.hold(-l.held) }

// cost returns the bytes that the link takes once it is attached. Its texts have been cut to their
// limits.
func (l *link) cost(a *amqp.Attach) int {
	return linkCost + len(l.name) + len(l.at.host) + len(l.at.text) + len(l.at.path) + len(replyAddress(a)) + len(l.transfer.to.host+l.transfer.to.text+l.transfer.to.path)
}

// bare drops all texts of the peer that a refused link has: it only waits for the peer's detach.
func (l *link) bare() {
	*l = link{s: l.s, c: l.c, handle: l.handle, detached: true, active: l.active, held: l.held}
}

// replyAddress returns the target address by which answers reach a receiver (2.3); an address over
// the length limit is not kept.
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
