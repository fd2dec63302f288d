package servicebus

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// phase is the progress of a connection.
type phase uint8

const (
	atHeader     phase = iota // nothing received
	atSASL                    // SASL header exchanged
	atAMQPHeader              // logged in with SASL; the AMQP header is next
	atOpen                    // AMQP header exchanged
	opened
	closing // the broker's close is sent, the peer's is not received
	over    // nothing more is read; buffered output is written
)

// conn is one connection: it passes on what the peer and the engine say. The state for that is in
// types with a file each.
type conn struct {
	// set once in newConn
	*environment
	net     net.Conn
	number  uint64 // of the connections of the server
	remote  string // host:port of the peer
	host    string // host of the peer
	log     *slog.Logger
	reader  *reader              // cuts the input into frames
	outbox  *outbox              // receives the engine's answers
	quit    chan struct{}        // closed when run no longer takes input from the reader
	stop    chan struct{}        // closed by askToStop
	stopped sync.Once            // guards the closing of stop
	onPanic func()               // called after a panic
	onLogin func()               // called after the first valid token
	onFail  func() time.Duration // called after a failed login; returns the delay of the next one
	// onRefused is called for a receiver link that the broker refuses, or detaches because of an
	// error.
	onRefused func(*link, amqp.Symbol, string)

	// a look at its links that waits for the end of the turn; nil: none
	asked atomic.Pointer[receiverLook]

	// held by the goroutine that has the connection's turn: run, the reader (turns.go), or one that
	// looks (look.go). Guards the fields that are owned by the turn
	turn sync.Mutex
	done bool // run and the reader have had their last turns; guarded by turn

	anonymous bool        // no valid token so far; guarded by the server's mutex
	overuse   overuse     // guarded by the server's mutex
	refusal   *amqp.Error // closes the connection as soon as it opens; nil: none

	// owned by the turn: the course of the connection
	now      time.Time // at the start of this turn of the loop
	phase    phase     // progress
	failed   error     // the socket is gone, or there was a panic
	timers   timers    // actions at times
	turns    turns     // time when this connection last let other goroutines run
	teardown teardown  // links, or the connection, that are removed after the engine's answers

	// owned by the turn: the peer
	in         input                // received frames
	decoder    amqp.Decoder         // of these
	out        output               // frames to send
	texts      errorTexts           // error texts, as far as its frames have room for them
	peer       peer                 // from its open
	sasl       sasl                 // the login layer
	login      login                // bytes before its first valid token, and the cost of failures
	claims     claims               // grants of its tokens
	allowed    allowance            // its limits
	memory     memory               // bytes kept for it
	unfinished unfinishedDeliveries // deliveries with missing frames

	// owned by the turn: links
	sessions     sessionTable  // by channel, with their links by handle
	links        links         // by name, and by what they hold
	outstanding  outstanding   // deliveries that the peer has to settle
	transactions transactions  // begun by the peer
	pump         pump          // receivers with something to write
	stored       messageReader // messages that are read back for them

	// owned by the turn: what the engine is asked
	batch     batch          // requests on their way to the engine
	pendings  pendings       // requests that the engine has not answered
	deadlines deadlines      // of requests to a $management node
	replies   []engine.Reply // the last ones; their memory is reused
	answers   answers        // dispositions for the peer that follow from them
}

// maxHostname is the number of bytes of a host name that are kept: the longest valid name with a
// port.
const maxHostname = 253 + len(":65535")

// peer holds the data of the peer's open frame.
type peer struct {
	container string
	hostname  string // the broker's name, as the peer knows it
	product   string
	idle      time.Duration // 0: none
	// the highest channel it may use: the smaller of its own limit and the broker's
	channels uint16
}

func newConn(env *environment, nc net.Conn, number uint64) *conn {
	c := &conn{
		environment: env, net: nc, number: number,
		outbox: newOutbox(), quit: make(chan struct{}), stop: make(chan struct{}),
		sessions: make(sessionTable), links: newLinks(),
	}
	if a := nc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	c.host = c.remote
	if h, _, err := net.SplitHostPort(c.remote); err == nil {
		c.host = h
	}
	c.claims.limit, c.claims.verifier = env.limits.Tokens, env.verifier
	c.decoder.Limits = amqp.HandshakeLimits
	c.batch.broker, c.answers.out = c.broker, &c.out
	c.texts = errorTexts{tracking: &env.trackingSuffix, out: &c.out}
	c.transactions = newTransactions(c)
	c.reader = newReader(nc, c.quit, env.limits.MaxFrameSize)
	c.reader.handle = c.readTurn
	c.allowed.limits, c.memory.allowed, c.memory.kept = &env.limits, &c.allowed, memoryCounter(c)
	c.out = output{writer: newWriter(nc, env.limits.WriteStallLogin), maxFrame: amqp.MinMaxFrameSize}
	c.log = env.logger.With("connection", number, "remote", c.remote)
	c.sasl = sasl{verifier: env.verifier, log: c.log, secure: isTLS(nc) || env.plainNoTLS || env.plainHere && onLoopback(nc)}
	c.stored = messageReader{broker: c.broker, limits: &env.limits, log: c.log}
	return c
}

// askToStop makes run close the connection in order. It is safe from any goroutine.
func (c *conn) askToStop() { c.stopped.Do(func() { close(c.stop) }) }

// run serves the connection until it ends. All state belongs to the goroutine that has the turn.
func (c *conn) run() {
	c.turn.Lock() // the first turn of loop begins here
	readerDone, writerDone := make(chan struct{}), make(chan struct{})
	go func() { c.reader.run(); close(readerDone) }()
	go func() { c.out.writer.run(); close(writerDone) }()
	c.now = time.Now()
	c.timers.start(c)
	c.log.Debug("servicebus: connection opened")
	unwatch := c.broker.Watch(c.outbox.changed)
	c.guard(c.loop)
	unwatch()
	c.net.Close()
	close(c.quit)
	close(c.out.writer.in)
	c.timers.timer.Stop()
	c.guard(c.leave)
	c.outbox.close()
	<-readerDone
	<-writerDone
	c.in.drop(c.reader)
	c.memory.close()
	c.log.Debug("servicebus: connection closed", "error", c.failed)
}

// guard runs f and recovers from a panic in it: only this connection ends (reliability.md F21).
func (c *conn) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("servicebus: panic, connection closed", "panic", r, "stack", string(debug.Stack()))
			c.failed = errPanic
			c.onPanic()
		}
	}()
	f()
}

var errPanic = errors.New("servicebus: internal error")

// loop handles events until the connection ends. The caller has taken its first turn.
func (c *conn) loop() {
	defer func() {
		c.done = true
		c.turn.Unlock()
	}()
	stop := c.stop
	for {
		c.flush()
		if c.failed != nil || c.phase == over && c.out.backlog() == 0 {
			return
		}
		var frames chan readResult
		switch may := c.mayRead(); {
		case may && c.in.waits():
			c.now = time.Now()
			c.handle(c.in.takeRest())
			c.settleUp()
			continue
		case may:
			frames = c.reader.out
		}
		c.turn.Unlock()
		select {
		case in := <-frames:
			c.takeTurn()
			c.receive(in)
		case <-c.outbox.wake:
			c.takeTurn()
			c.drain()
		case err := <-c.out.writer.done:
			c.takeTurn()
			c.written(err)
		case <-c.timers.timer.C:
			c.takeTurn()
			c.timers.fire(c)
		case <-stop:
			c.takeTurn()
			stop = nil
			c.teardown.stop()
			c.tearDown()
		}
		c.settleUp()
	}
}

// settleUp ends a turn: it sends the resulting requests to the engine and the output to the peer.
func (c *conn) settleUp() {
	c.batch.submit()
	if c.phase == opened {
		c.pump.run(&c.out)
		c.batch.submit() // credit of deliveries that were not written
	}
	c.answers.flush()
	c.memory.settle()
	if c.in.short {
		c.in.acknowledge(c.reader, c.out.backlog() > 0 || c.pendings.unanswered > 0)
	}
	if c.asked.Load() != nil {
		c.asked.Swap(nil).answer(c.number, c.sessions)
	}
}

// mayRead reports whether more input may be read. It is false while the peer has to wait for the
// engine or must read its own output first.
func (c *conn) mayRead() bool {
	if c.phase < closing && c.teardown.pending() {
		return false
	}
	in, out := c.allowed.buffers()
	return c.phase != over && !c.login.waits(c.now) && c.pendings.bytes <= in && c.pendings.expected <= out && c.out.backlog() <= out
}

// receive handles the frames of one read.
func (c *conn) receive(in readResult) {
	if in.chunk == nil {
		return // a turn of the reader left something to do
	}
	c.in.taken++
	c.in.short = in.short
	c.timers.heard = c.now
	if c.phase < closing && !c.login.received(len(in.data), &c.allowed) {
		c.protocolFault(amqp.CondResourceLimit, "There were too many bytes before a valid token.")
		in.data = nil
	}
	c.handle(in)
}

// handle handles the frames of one read. It submits their requests as one run per partition. If
// they ask for more than the connection may have at a time, the remaining frames wait: one read can
// hold thousands of requests.
func (c *conn) handle(in readResult) {
	c.in.begin(in.chunk)
	c.in.cut = in.cut
	_, most := c.allowed.buffers()
	unseen := 0
	for data := in.data; len(data) > 0 && c.phase != over; {
		size := frameSize(data)
		c.frame(data[:size:size])
		data = data[size:]
		if unseen += int(size); unseen > fairBytes {
			unseen = 0
			c.turns.giveWay(c.now)
		}
		if c.pendings.expected > most && len(data) > 0 && c.phase == opened {
			c.in.keep(readResult{chunk: in.chunk.retain(), data: data, err: in.err})
			in.err = nil
			break
		}
	}
	c.batch.submit() // before the chunk is released: sends hold their own references
	c.in.end()
	in.chunk.Release()
	if in.err != nil {
		c.ended(in.err)
	}
}

// ended handles the end of the stream.
func (c *conn) ended(err error) {
	var framing *amqp.FramingError
	switch {
	case errors.As(err, &framing) && c.phase < closing:
		c.protocolFault(amqp.CondFramingError, framing.Reason)
		c.phase = over // the rest of the stream cannot be read
	case errors.Is(err, io.EOF) && c.phase >= closing:
		c.phase = over
	default:
		c.failed = err
	}
}

// frame handles one frame or protocol header.
func (c *conn) frame(b []byte) {
	if isProtocolHeader(b) {
		c.protocolHeader(amqp.ProtocolHeader(b))
		return
	}
	h, err := amqp.ParseFrameHeader(b)
	if err != nil || int(h.DOFF)*4 > len(b) || h.DOFF < 2 {
		c.protocolFault(amqp.CondFramingError, "The frame header is invalid.")
		return
	}
	body := b[int(h.DOFF)*4:]
	switch {
	case h.Type == amqp.FrameTypeSASL && c.phase == atSASL:
		c.saslFrame(body)
	case h.Type == amqp.FrameTypeAMQP && c.phase >= atOpen:
		if len(body) > 0 {
			c.amqpFrame(h.Channel, body)
		}
	default:
		c.protocolFault(amqp.CondFramingError, "The frame's type is not expected now.")
	}
}

func (c *conn) amqpFrame(channel uint16, body []byte) {
	c.in.body = body
	p, payload, err := c.decoder.Decode(body)
	if c.in.cut {
		if _, ok := p.(*amqp.Transfer); err != nil || !ok {
			closeNoMemory(c)
			return
		}
	}
	if err != nil {
		c.protocolFault(amqp.CondDecodeError, err.Error())
		return
	}
	if c.phase == closing {
		if _, ok := p.(*amqp.Close); ok {
			c.phase = over
		}
		return
	}
	if c.phase == atOpen {
		if p, ok := p.(*amqp.Open); ok {
			c.open(p)
			return
		}
		c.protocolFault(amqp.CondNotAllowed, "The first frame must be an open.")
		return
	}
	if channel > c.peer.channels {
		c.protocolFault(amqp.CondFramingError, "The channel number exceeds channel-max.")
		return
	}
	switch p := p.(type) {
	case *amqp.Open:
		c.protocolFault(amqp.CondNotAllowed, "The connection is open already.")
	case *amqp.Close:
		c.peerClosed(p)
	case *amqp.Begin:
		c.begin(channel, p)
	default:
		s := c.sessions[channel]
		switch {
		case s != nil:
			s.frame(p, payload)
		case !isStray(p):
			c.protocolFault(amqp.CondNotAllowed, "There is no session on the channel.")
		}
	}
}

// open answers the peer's open (1.6).
func (c *conn) open(o *amqp.Open) {
	c.phase = opened
	size := o.MaxFrameSize.Or(amqp.NoLimit)
	if size < amqp.MinMaxFrameSize {
		c.writeOpen()
		c.protocolFault(amqp.CondFramingError, "max-frame-size must be at least 512.")
		return
	}
	c.out.maxFrame = min(size, c.limits.MaxFrameSize)
	c.peer = peer{
		container: cloneShort(o.ContainerID, maxPeerText), hostname: cloneShort(o.Hostname, maxHostname),
		product:  cloneShort(product(o.Properties), maxPeerText),
		idle:     time.Duration(o.IdleTimeout.Or(0)) * time.Millisecond,
		channels: min(o.ChannelMax.Or(65535), c.limits.Channels),
	}
	c.writeOpen()
	if c.refusal != nil {
		c.closeFor(event.ClosedByBroker, c.refusal.Condition, c.refusal.Description)
		return
	}
	c.timers.opened(c)
	c.log.Debug("servicebus: open", "container", c.peer.container, "product", c.peer.product)
}

// writeOpen offers half of the idle time after which the connection is closed: a peer may send its
// empty frames exactly at the offered interval, and they may be late (AMQP 2.4.5).
func (c *conn) writeOpen() {
	c.out.frame(0, &amqp.Open{
		ContainerID:  c.containerID,
		MaxFrameSize: amqp.Some(c.limits.MaxFrameSize),
		ChannelMax:   amqp.Some(c.peer.channels),
		IdleTimeout:  amqp.Some(uint32(c.limits.IdleTimeout / 2 / time.Millisecond)),
	})
}

// product returns the name of the SDK for the audit trail.
func product(m amqp.Map) string {
	name := message.TextOf(m, "product")
	if v := message.TextOf(m, "version"); name != "" && v != "" {
		return name + "/" + v
	}
	if name != "" {
		return name
	}
	return message.TextOf(m, "user-agent")
}

// authenticated notes the first valid login, after which the peer's limits are larger.
func (c *conn) authenticated() {
	if c.allowed.loggedIn {
		return
	}
	c.allowed.login()
	c.decoder.Limits = amqp.DefaultLimits
	c.reader.generous.Store(true)
	c.out.writer.stall.Store(int64(c.limits.WriteStall))
	c.onLogin()
}

// peerClosed answers the peer's close; the socket is closed after the answer is written (1.8).
func (c *conn) peerClosed(p *amqp.Close) {
	if p.Error != nil {
		c.log.Debug("servicebus: closed by peer", "condition", p.Error.Condition, "text", p.Error.Description)
	}
	c.closeWith(nil, closedBy(event.ClosedByPeer, p.Error))
	c.phase = over
}

// protocolFault ends a connection that broke the protocol. If the peer's protocol header is not
// accepted, it sends one that is (1.1). Within the login layer no error can be sent.
func (c *conn) protocolFault(symbol amqp.Symbol, text string) {
	c.log.Info("servicebus: protocol fault", "condition", symbol, "text", text)
	early := c.phase < opened
	switch c.phase {
	case atHeader:
		c.out.header(amqp.ProtocolSASL)
	case atAMQPHeader:
		c.out.header(amqp.ProtocolAMQP)
	case atSASL:
	default:
		if early {
			c.writeOpen()
		}
		c.closeFor(event.ClosedByBroker, symbol, text)
	}
	if early {
		c.phase = over
	}
}

// closeFor closes the connection with an error and logs the error for its links as well.
func (c *conn) closeFor(cause event.CloseCause, symbol amqp.Symbol, text string) {
	e := &amqp.Error{Condition: symbol, Description: c.texts.suffixed(text, "", c.now)}
	c.closeWith(e, closedBy(cause, e))
}

// closeWith sends the close once; nothing may follow it. closed is the reason that the log stores
// for the links.
func (c *conn) closeWith(e *amqp.Error, closed event.LinkClosed) {
	if c.phase >= closing {
		return
	}
	c.batch.submit()
	c.answers.flush()
	c.out.close(&amqp.Close{Error: e})
	c.phase = closing
	c.timers.closing(c)
	c.sessions.leave(closed)
	c.pump.stop()
}

// shutdown closes the connection because the server stops.
func (c *conn) shutdown() {
	if c.phase < opened {
		c.phase = over
		return
	}
	e := &amqp.Error{
		Condition:   amqp.CondConnectionForced,
		Description: c.texts.suffixed("The connection is closed because the server is stopping.", "", c.now),
	}
	// the cause is enough, and there may be many connections
	c.closeWith(e, event.LinkClosed{Cause: event.ClosedStop})
}

// leave returns to the engine everything that it holds for this connection, including transactions,
// and waits until no more deliveries can arrive. A delivery that arrives meanwhile never reached
// the wire and is released (4.7).
func (c *conn) leave() {
	c.phase = over
	c.out.shut()
	c.sessions.leave(c.lost())
	c.batch.submit()
	c.pendings.unread()
	for c.pendings.detaches+c.pendings.ends > 0 {
		<-c.outbox.wake
		c.drain()
		c.batch.submit()
	}
}

// flush hands buffered output to the writer, unless the peer has to wait.
func (c *conn) flush() {
	if c.failed == nil && !c.login.waits(c.now) && c.out.flush() {
		c.timers.spoke = c.now
	}
}

// written takes the buffer back from the writer.
func (c *conn) written(err error) {
	c.out.written(c.allowed.spareOutput())
	if err != nil {
		c.failed = err
	}
}
