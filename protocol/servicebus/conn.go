package servicebus

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// phase is how far a connection has come.
type phase uint8

const (
	atHeader     phase = iota // nothing received
	atSASL                    // SASL header exchanged
	atAMQPHeader              // logged in with SASL, the AMQP header has to come
	atOpen                    // AMQP header exchanged
	opened
	closing // our close is sent, the peer's has not come
	over    // nothing more is read; what is buffered is written
)

// conn is one connection. Its run method owns everything below the first group.
type conn struct {
	// set once in newConn
	*environment
	net     net.Conn
	number  uint64
	remote  string // host:port of the peer
	host    string // host of the peer
	tls     bool
	reader  *reader
	writer  *writer
	outbox  *outbox
	quit    chan struct{} // closed when run no longer takes what the reader has
	stop    chan struct{} // closed by askToStop
	stopped sync.Once
	onPanic func()
	onLogin func()
	onFail  func() time.Duration // a login failed; how long the next one has to wait

	newcomer bool   // guarded by the server's mutex
	refusal  string // why the connection is closed as soon as it opens; empty: it is not

	// owned by run
	phase    phase
	log      *slog.Logger
	now      time.Time // of this turn of the loop
	decoder  amqp.Decoder
	chunk    *chunk  // the frame being handled stands in it
	rest     inbound // frames that have been read and wait; see handle
	failed   error   // the socket is gone
	claims   claims
	loggedIn bool // there has been a valid token
	early    int  // bytes received before that
	peer     peer
	sessions map[uint16]*session
	names    map[linkName]*link
	tokens   [2]*link              // to $cbs: where the peer sends, where it receives
	holders  map[heldSession]*link // of message sessions
	links    int                   // attached
	parted   int                   // detached by us, the peer's detach has not come
	pendings pendings
	changes  []engine.Change // of entities, that links do not know of yet; see part
	recheck  bool            // claims are to be looked at
	stopping bool
	held     int                              // bytes that sessions and links take, see held.go
	body     []byte                           // of the frame being handled
	bufferIn int                              // bytes of sends without an answer
	joining  int                              // bytes of deliveries of which frames are missing
	requests int                              // the engine has not answered
	taking   int                              // of those, the ones that take messages by number or ask for rules: each answer holds them whole
	answered int                              // bytes of answers that wait for the peer's credit
	expected int                              // bytes that the engine's answers to requests may take, at most
	timed    []*request                       // of them, those with a deadline
	locked   int                              // unsettled deliveries sent
	byToken  map[event.LockToken]sentDelivery // the same by lock token; nil until somebody settles them so
	forgot   time.Time                        // last time expired ones were forgotten
	batch    batch
	answers  answers
	ready    []*link // receivers with something to write, in the order they got it
	unread   []*link // receivers whose next message could not be read just now
	replies  []engine.Reply

	out      []byte // frames not yet handed to the writer
	spare    []byte // the writer's last buffer
	writing  int    // bytes the writer has
	timers   timers
	frozen   time.Time // nothing is read or written before: what failed logins cost
	detaches int       // receivers whose detach the engine has not answered
	gaveWay  time.Time // when others last had their turn; see giveWay
	short    bool      // the peer may hold back what follows this turn's frames; see acknowledge
}

// maxHostname is how many bytes of a host name are kept: the longest there is and a port.
const maxHostname = 253 + len(":65535")

// peer is what the open frame said.
type peer struct {
	container string
	hostname  string // the broker's, as the peer knows it
	product   string
	maxFrame  uint32
	idle      time.Duration // 0: none
	channels  uint16        // the highest number it may use: the smaller of its own limit and ours
}

func newConn(env *environment, nc net.Conn, number uint64) *conn {
	c := &conn{
		environment: env, net: nc, number: number,
		outbox: newOutbox(), quit: make(chan struct{}), stop: make(chan struct{}),
		sessions: make(map[uint16]*session), names: make(map[linkName]*link), holders: make(map[heldSession]*link),
	}
	if a := nc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	c.host = c.remote
	if h, _, err := net.SplitHostPort(c.remote); err == nil {
		c.host = h
	}
	c.tls = isTLS(nc)
	c.claims.limit, c.claims.verifier = env.limits.Tokens, env.verifier
	c.peer.maxFrame = amqp.MinMaxFrameSize
	c.decoder.Limits = amqp.HandshakeLimits
	c.batch.c, c.answers.c = c, c
	c.reader = newReader(nc, c.quit, env.limits.MaxFrameSize)
	c.writer = newWriter(nc, env.limits.WriteStallLogin)
	c.log = env.logger.With("connection", number, "remote", c.remote)
	return c
}

// askToStop makes run close the connection in order. Safe from any goroutine.
func (c *conn) askToStop() { c.stopped.Do(func() { close(c.stop) }) }

// run serves the connection until it is over: one goroutine, all state.
func (c *conn) run() {
	readerDone, writerDone := make(chan struct{}), make(chan struct{})
	go func() { c.reader.run(); close(readerDone) }()
	go func() { c.writer.run(); close(writerDone) }()
	c.now = time.Now()
	c.timers.start(c)
	c.log.Debug("servicebus: connection opened")
	unwatch := c.broker.Watch(c.outbox.changed)
	c.guard(c.loop)
	unwatch()
	c.net.Close()
	close(c.quit)
	close(c.writer.in)
	c.timers.timer.Stop()
	c.guard(c.leave)
	c.outbox.close()
	<-readerDone
	<-writerDone
	c.drop()
	c.log.Debug("servicebus: connection closed", "error", c.failed)
}

// guard runs f and survives a bug in it: this connection ends, nobody else notices (reliability.md F21).
func (c *conn) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("servicebus: panic, connection dropped", "panic", r, "stack", string(debug.Stack()))
			c.failed = errPanic
			c.onPanic()
		}
	}()
	f()
}

var errPanic = errors.New("servicebus: internal error")

func (c *conn) loop() {
	stop := c.stop
	for {
		c.flush()
		if c.failed != nil || c.phase == over && len(c.out) == 0 && c.writing == 0 {
			return
		}
		var frames chan inbound
		switch may := c.mayRead(); {
		case may && c.rest.chunk != nil:
			rest := c.rest
			c.rest, c.now = inbound{}, time.Now()
			c.handle(rest)
			c.settleUp()
			continue
		case may:
			frames = c.reader.out
		}
		select {
		case in := <-frames:
			c.now = time.Now()
			c.receive(in)
		case <-c.outbox.wake:
			c.now = time.Now()
			c.drain()
		case err := <-c.writer.done:
			c.now = time.Now()
			c.written(err)
		case <-c.timers.timer.C:
			c.now = time.Now()
			c.timers.fire(c)
		case <-stop:
			stop, c.stopping = nil, true
			c.now = time.Now()
			c.part()
		}
		c.settleUp()
		if c.short {
			c.acknowledge()
		}
	}
}

// settleUp ends a turn: what it has led to goes to the engine, and to the peer.
func (c *conn) settleUp() {
	c.batch.submit()
	c.pump()
	c.answers.flush()
}

// mayRead is false while the peer has to wait for the engine or for its own reading.
func (c *conn) mayRead() bool {
	if c.phase < closing && c.parting() {
		return false
	}
	in, out := c.buffers()
	return c.phase != over && !c.now.Before(c.frozen) && c.bufferIn <= in && c.expected <= out && len(c.out)+c.writing <= out
}

// receive takes the frames of one read.
func (c *conn) receive(in inbound) {
	c.short = in.short
	c.timers.heard = c.now
	if !c.loggedIn && c.phase < closing {
		if c.early += len(in.data); c.early > earlyShare*c.limits.BufferedLogin {
			c.protocolFault(amqp.CondResourceLimit, "There were too many bytes before a valid token.")
			in.data = nil
		}
	}
	c.handle(in)
}

// handle handles the frames of one read. Their requests are submitted as one run per partition. When they ask for more than the
// connection may have at a time the rest waits: thousands of requests fit into one read.
func (c *conn) handle(in inbound) {
	c.chunk = in.chunk
	_, most := c.buffers()
	unseen := 0
	for data := in.data; len(data) > 0 && c.phase != over; {
		size := frameSize(data)
		c.frame(data[:size:size])
		data = data[size:]
		if unseen += int(size); unseen > fairBytes {
			unseen = 0
			c.giveWay()
		}
		if c.expected > most && len(data) > 0 && c.phase == opened {
			c.rest = inbound{chunk: in.chunk.retain(), data: data, err: in.err}
			in.err = nil
			break
		}
	}
	c.batch.submit() // before the chunk goes: sends hold references of their own
	c.chunk, c.body = nil, nil
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
		c.phase = over // the stream makes no sense any more
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
	c.body = body
	p, payload, err := c.decoder.Decode(body)
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
		c.protocolFault(amqp.CondFramingError, "The channel number is over channel-max.")
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
		if s == nil {
			c.protocolFault(amqp.CondNotAllowed, "There is no session on the channel.")
			return
		}
		s.frame(p, payload)
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
	c.peer = peer{
		container: kept(o.ContainerID, maxPeerText), hostname: kept(o.Hostname, maxHostname), maxFrame: min(size, c.limits.MaxFrameSize),
		product:  kept(product(o.Properties), maxPeerText),
		idle:     time.Duration(o.IdleTimeout.Or(0)) * time.Millisecond,
		channels: min(o.ChannelMax.Or(65535), c.limits.Channels),
	}
	c.writeOpen()
	if c.refusal != "" {
		c.closeWith(&amqp.Error{Condition: amqp.CondResourceLimit, Description: c.suffixed(c.refusal, "", c.now)})
		return
	}
	c.timers.opened(c)
	c.log.Debug("servicebus: open", "container", c.peer.container, "product", c.peer.product)
}

func (c *conn) writeOpen() {
	c.write(0, &amqp.Open{
		ContainerID:  c.containerID,
		MaxFrameSize: amqp.Some(c.limits.MaxFrameSize),
		ChannelMax:   amqp.Some(c.peer.channels),
		IdleTimeout:  amqp.Some(uint32(c.limits.IdleTimeout / time.Millisecond)),
	})
}

// product names the SDK for the audit trail.
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

// loginFailed counts a failed login against the peer's address and lets it wait when there have been many.
func (c *conn) loginFailed() {
	wait := c.onFail()
	if wait == 0 {
		return
	}
	if c.frozen.Before(c.now) {
		c.frozen = c.now
	}
	c.frozen = c.frozen.Add(wait)
	c.timers.by(c, c.frozen)
}

// authenticated notes the first valid login: the peer is allowed more from now on.
func (c *conn) authenticated() {
	if c.loggedIn {
		return
	}
	c.loggedIn = true
	c.decoder.Limits = amqp.DefaultLimits
	c.reader.generous.Store(true)
	c.writer.stall.Store(int64(c.limits.WriteStall))
	c.onLogin()
}

// peerClosed answers the peer's close; the socket goes when the answer is written (1.8).
func (c *conn) peerClosed(p *amqp.Close) {
	if p.Error != nil {
		c.log.Debug("servicebus: closed by peer", "condition", p.Error.Condition, "text", p.Error.Description)
	}
	c.closeWith(nil)
	c.phase = over
}

// protocolFault ends a connection that broke the protocol. Who sends no header that is welcome is told of one that is (1.1);
// within the login layer there is nobody to tell.
func (c *conn) protocolFault(symbol amqp.Symbol, text string) {
	c.log.Info("servicebus: protocol fault", "condition", symbol, "text", text)
	early := c.phase < opened
	switch c.phase {
	case atHeader:
		c.out = append(c.out, amqp.ProtocolSASL[:]...)
	case atAMQPHeader:
		c.out = append(c.out, amqp.ProtocolAMQP[:]...)
	case atSASL:
	default:
		if early {
			c.writeOpen()
		}
		c.closeWith(&amqp.Error{Condition: symbol, Description: c.suffixed(text, "", c.now)})
	}
	if early {
		c.phase = over
	}
}

// closeWith sends close once; after it nothing else is sent.
func (c *conn) closeWith(e *amqp.Error) {
	if c.phase >= closing {
		return
	}
	c.batch.submit()
	c.answers.flush()
	c.write(0, &amqp.Close{Error: e})
	c.phase = closing
	c.timers.closing(c)
	for _, s := range c.sessions {
		s.leave()
	}
	clear(c.sessions)
	c.ready = nil
}

// shutdown closes the connection because the server stops.
func (c *conn) shutdown() {
	if c.phase < opened {
		c.phase = over
		return
	}
	c.closeWith(&amqp.Error{
		Condition:   amqp.CondConnectionForced,
		Description: c.suffixed("The connection is closed because the server is stopping.", "", c.now),
	})
}

// leave gives back what the engine still holds for this connection and waits until no delivery can come any more: one
// that never reached the wire is released (4.7).
func (c *conn) leave() {
	c.phase = over
	for _, s := range c.sessions {
		s.leave()
	}
	clear(c.sessions)
	c.batch.submit()
	for c.detaches > 0 {
		<-c.outbox.wake
		c.drain()
		c.batch.submit()
	}
}

// drop releases chunks the reader left behind.
func (c *conn) drop() {
	if c.rest.chunk != nil {
		c.rest.chunk.Release()
		c.rest = inbound{}
	}
	select {
	case in := <-c.reader.out:
		in.chunk.Release()
	default:
	}
}

// suffixed makes the text of an error for the peer: what it is about, the suffix of 8.4, and no more of either than its frames have
// room for beside everything else.
func (c *conn) suffixed(text, entity string, now time.Time) string {
	n, m := c.textRoom()
	return c.tracking.suffixed(message.Short(text, n), message.Short(entity, m), now)
}

// textRoom is how many bytes of a text, and of what it is about, the peer's frames have room for.
func (c *conn) textRoom() (text, entity int) {
	room := min(int(c.peer.maxFrame)-300, 4096)
	return 2 * room / 3, room / 3
}

// fits reports whether a frame is one that the peer takes. Those that say what the peer said have to be asked.
func (c *conn) fits(p amqp.Performative) bool {
	start := len(c.out)
	c.out = amqp.AppendFrame(c.out, 0, p, nil)
	size := len(c.out) - start
	c.out = c.out[:start]
	return size <= int(c.peer.maxFrame)
}

// write appends a frame to what goes out next.
func (c *conn) write(channel uint16, p amqp.Performative) {
	if c.phase >= closing {
		return
	}
	c.out = amqp.AppendFrame(c.out, channel, p, nil)
}

// flush hands what is buffered to the writer if it is idle.
func (c *conn) flush() {
	if len(c.out) == 0 || c.writing > 0 || c.failed != nil || c.now.Before(c.frozen) {
		return
	}
	c.timers.spoke = c.now
	if len(c.out) <= smallWrite {
		n := c.writer.try(c.out)
		if c.out = c.out[:copy(c.out, c.out[n:])]; len(c.out) == 0 {
			return
		}
	}
	c.writing = len(c.out)
	c.writer.in <- c.out
	c.out, c.spare = c.spare[:0], c.out
}

// smallWrite is how many bytes the owner writes by itself when the socket takes them at once.
const smallWrite = 4 << 10

// written takes the buffer back from the writer.
func (c *conn) written(err error) {
	c.writing = 0
	if err != nil {
		c.failed = err
		return
	}
	if cap(c.spare) > 4*highWater || !c.loggedIn && cap(c.spare) > smallChunk {
		c.spare = nil
	}
}

// highWater is how many bytes are prepared ahead of the writer before deliveries wait, so that bodies are read late.
const highWater = 256 << 10
