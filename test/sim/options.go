package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// options is what one seed plays with: few messages, much contention, some kinds of operations
// often and others never.
type options struct {
	questions  int // about the past, at the end
	partitions int
	entities   []spec
	topics     bool // there are some
	steps      int

	segmentBytes    int
	roomBytes       int
	chapterBytes    int
	chapterAge      time.Duration
	checkpointBytes int64
	bootKnown       bool

	maxBody   int
	ownTTL    time.Duration // longest a sender asks for; 0: none does
	sessions  []string      // ids
	ids       int           // message-ids per queue
	ahead     time.Duration // how far messages are scheduled at the most; 0: none is
	patience  time.Duration // longest wait for a session
	operation [operations]int
	actions   [actions]int
	longStep  time.Duration // longest ordinary advance of the clock

	prompt  bool // the disk is fast: what a turn wrote is synced at once
	crashes bool // at all
	deep    bool // crashes inside calls of the file system, recovery and checkpoints too
	power   int  // percent of the crashes that are power losses
	errors  bool // writes and syncs that fail
	damage  bool // bits that flip at rest

	sealAfter time.Duration // how long a chapter is closed before it is sealed; 0: none is
	sealing   int           // in how many of a hundred steps a chapter to seal is looked for
	spacing   int           // how often history is given back, in a hundred steps; 0: never
	eager     bool          // … also where little is gained
	untold    bool          // … and nothing in the log says what was cut before its time
	// percent of those steps in which the process dies, inside a call of the file system
	dying   int
	steady  bool // what was done is durable after each step, unless a disk hangs
	forge   bool // bodies that look like frames of the log
	jumps   bool // the wall clock is set
	renew   bool // queues are deleted and created again
	idle    bool // what nobody uses deletes itself
	headers bool // messages have headers about as large as they may be

	transactions bool     // some of what clients ask for is part of one
	moves        bool     // entities forward to one another
	targets      []string // of them, that forwarding goes to
	failuresTo   event.SubQueue
	fences       bool // a partition that fails is fenced, and restarted
	refuses      bool // a damaged log has its partition refused for a while

	split   int  // partitions of entities that have several; 0: none has
	keyless bool // most messages to these have no key

	faults bool // disks have little room or hang, and memory is short

	startBytes int // see [loop.Options]
}

// action is what the scheduler does next.
type action int

const (
	actRequest action = iota // a client asks for something
	actTurn                  // a loop takes what was asked
	actWork                  // a writer does one piece of I/O
	actLand                  // a loop hears of a commit
	actClock                 // time goes on
	actSecond                // a writer's once-a-second duties
	actCheck                 // state and replays are compared
	actJump                  // the wall clock is set
	actCrash                 // the process or the machine dies here
	actArm                   // … or soon, inside a call of the file system
	actError                 // a write or sync will fail soon
	actStop                  // the process stops cleanly and starts again
	actIdle                  // the broker looks for entities that nobody uses
	actCourier               // a courier has its turn
	actRevive                // a partition that was refused comes back
	actions
)

// operation is what clients ask for.
type operation int

const (
	opSend operation = iota
	opBatch
	opAttach
	opAccept // of a session
	opFlow
	opDetach
	opSettle
	opSettleMany
	opStale
	opRenew
	opPeek
	opRecall // deferred messages by number
	opCancel // scheduled messages
	opPurge  // batch delete
	opRenewSession
	opSetState
	opGetState
	opList // sessions
	opUpdate
	opDelete
	opPutRule
	opDropRule
	opCommit
	opRollback
	operations // what clients ask for; the rest is asked for by the broker itself
	opDrop     // what a deletion leaves behind
	opEnforce  // a change of the catalogue where it counts
	opEnded    // a session receiver is told that it is none any more
	opUsage    // what is in use without anything being asked of it
	opTouch    // the note of an entity's last use
	opOrder    // where messages of an entity go
	opCut      // the note of history that was removed before its time
	opImport   // messages that arrive
)

func (o operation) String() string { return operationNames[o] }

var operationNames = [...]string{"send", "batch", "attach", "accept", "flow", "detach", "settle", "settle many", "settle stale", "renew",
	"peek", "receive deferred", "cancel scheduled", "batch delete", "renew session", "set state", "get state", "list sessions", "update", "delete",
	"put rule", "delete rule", "commit", "rollback", "", "drop", "enforce", "ended", "usage", "touch", "order", "cut", "import"}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// Streams keep what is drawn for a later feature apart, so that all else stays the same.
const (
	topicsStream = 0xd1342543de82ef95
	roomStream   = 0x9e3779b97f4a7c15
	laterStream  = 0xbf58476d1ce4e5b9
	movesStream  = 0x94d049bb133111eb
	fenceStream  = 0x2545f4914f6cdd1d
	sealStream   = 0xff51afd7ed558ccd
	faultStream  = 0xc4ceb9fe1a85ec53
	spaceStream  = 0x165667b19e3779f9
)

func swarm(rng *rand.Rand, seed uint64) options {
	o := options{
		partitions: 1 + rng.IntN(3), steps: 300 + rng.IntN(1200),
		roomBytes:       pick(rand.New(rand.NewPCG(seed, roomStream)), -1, 512, 2<<10, 16<<10),
		segmentBytes:    pick(rng, 1<<10, 2<<10, 4<<10, 16<<10, 64<<10),
		chapterBytes:    pick(rng, 1, 4<<10, 32<<10, 1<<20),
		chapterAge:      pick(rng, 50*time.Millisecond, time.Second, time.Hour),
		checkpointBytes: pick[int64](rng, -1, -1, 1, 2<<10, 16<<10, 64<<10),
		bootKnown:       rng.IntN(8) != 0,
		maxBody:         pick(rng, 16, 100, 1000, 4096),
		ownTTL:          pick(rng, 0, 0, 2*time.Millisecond, 50*time.Millisecond, 5*time.Second),
		longStep:        pick(rng, 300*time.Microsecond, 2*time.Millisecond, 2*time.Millisecond, 20*time.Millisecond, 300*time.Millisecond),
		prompt:          rng.IntN(2) == 0,
		crashes:         rng.IntN(8) != 0,
		deep:            rng.IntN(3) != 0,
		power:           pick(rng, 0, 50, 50, 100),
		errors:          rng.IntN(5) == 0,
		damage:          rng.IntN(6) == 0,
		forge:           rng.IntN(10) == 0,
		jumps:           rng.IntN(3) == 0,
		renew:           rng.IntN(4) == 0,
		sessions:        []string{"", "a", "b", "c", "d", "e"}[:2+rng.IntN(5)],
		ids:             pick(rng, 3, 10, 40),
		ahead:           pick(rng, 0, 5*time.Millisecond, 100*time.Millisecond, 3*time.Second, 30*time.Second),
		patience:        pick(rng, time.Millisecond, 50*time.Millisecond, 10*time.Second),
	}
	o.addQueues(rng)
	o.operation = operationWeights
	if o.renew {
		o.operation[opUpdate], o.operation[opDelete] = 3, 2
	}
	o.addTopics(rand.New(rand.NewPCG(seed, topicsStream)))
	o.addLater(rand.New(rand.NewPCG(seed, laterStream)))
	o.weighOperations(rng)
	o.weighActions(rng)
	o.addMoves(rand.New(rand.NewPCG(seed, movesStream)))
	o.fences = o.partitions > 1 && !o.damage && pick(rand.New(rand.NewPCG(seed, fenceStream)), true, false)
	o.addSealing(rand.New(rand.NewPCG(seed, sealStream)))
	o.addSpace(rand.New(rand.NewPCG(seed, spaceStream)))
	o.faults = rand.New(rand.NewPCG(seed, faultStream)).IntN(3) == 0
	o.addSplit(rand.New(rand.NewPCG(seed, splitStream)))
	return o
}

var operationWeights = [operations]int{opSend: 30, opBatch: 8, opAttach: 8, opAccept: 8, opFlow: 24, opDetach: 4, opSettle: 40, opSettleMany: 4,
	opStale: 6, opRenew: 6, opPeek: 8, opRecall: 8, opCancel: 3, opPurge: 2, opRenewSession: 3, opSetState: 3, opGetState: 2, opList: 2,
	opUpdate: 1}

func (o *options) addQueues(rng *rand.Rand) {
	// bit 0: sessions, bit 1: duplicate detection; half of the queues have them
	features := rng.IntN(4)
	for range 1 + rng.IntN(3) {
		p := queueProperties(rng)
		p.RequiresSession = features&1 != 0 && rng.IntN(3) != 0
		p.RequiresDuplicateDetection = features&2 != 0 && rng.IntN(3) != 0
		o.entities = append(o.entities, spec{kind: event.Queue, path: fmt.Sprintf("queue-%d", len(o.entities)), props: p})
	}
}

// weighOperations leaves some operations out and makes others frequent.
func (o *options) weighOperations(rng *rand.Rand) {
	for i := range opCommit {
		if !o.topics && (i == opPutRule || i == opDropRule) {
			continue
		}
		switch rng.IntN(8) {
		case 0:
			if i != opSend && i != opAttach && i != opFlow {
				o.operation[i] = 0
			}
		case 1:
			o.operation[i] *= 3
		}
	}
}

func (o *options) weighActions(rng *rand.Rand) {
	o.actions = [actions]int{actRequest: 120, actTurn: 50, actWork: 60, actLand: 40, actClock: 28, actSecond: 6, actCheck: 1}
	for i := range actCourier {
		if rng.IntN(5) == 0 {
			o.actions[i] = o.actions[i]/3 + 1
		}
	}
	if o.crashes {
		o.actions[actCrash] = pick(rng, 0, 1, 1, 2)
		o.actions[actStop] = pick(rng, 0, 1)
		if o.deep {
			o.actions[actArm] = pick(rng, 1, 2)
		}
	}
	if o.errors {
		o.actions[actError] = 1
	}
	if o.jumps {
		o.actions[actJump] = 2
	}
	if o.idle {
		o.actions[actIdle] = 6
	}
}

// addTopics adds topics with subscriptions to half of the worlds, in the place of some queues.
func (o *options) addTopics(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		return
	}
	o.topics = true
	o.entities = o.entities[:rng.IntN(2)]
	o.operation[opSend], o.operation[opBatch] = 18, 5 // each may make many messages
	o.operation[opPutRule], o.operation[opDropRule] = 4, 2
	heavy := rng.IntN(12) == 0 // the topic's quota is in reach
	if heavy {
		o.maxBody = 50_000
	}
	for i := range 1 + rng.IntN(2) {
		t := spec{kind: event.Topic, path: fmt.Sprintf("topic-%d", i), props: properties(rng, event.Topic)}
		if t.props.RequiresDuplicateDetection = rng.IntN(3) == 0; heavy {
			t.props.MaxSizeMegabytes, t.props.MaxMessageSizeKilobytes = 1, 256
		}
		o.entities = append(o.entities, t)
		for k := range 2 + rng.IntN(3-i) {
			sub := spec{kind: event.Subscription, path: fmt.Sprintf("%s/Subscriptions/Sub-%d", t.path, k), topic: t.path,
				props: properties(rng, event.Subscription)}
			if sub.props.RequiresSession = rng.IntN(3) == 0; rng.IntN(3) != 0 {
				sub.rules = someRules(rng, o.sessions)
			}
			o.entities = append(o.entities, sub)
		}
	}
}

// addLater adds what came last, each to some worlds: entities that delete themselves, large
// headers, small frames at the start.
func (o *options) addLater(rng *rand.Rand) {
	o.idle, o.headers = rng.IntN(4) == 0, rng.IntN(6) == 0
	o.startBytes = pick(rng, 0, 0, 1, 200)
	for i := range o.entities {
		o.alter(rng, &o.entities[i].props)
	}
	if o.idle {
		o.operation[opUpdate] = max(4, o.operation[opUpdate])
	}
}

// addMoves adds transactions to some worlds, and forwarding.
func (o *options) addMoves(rng *rand.Rand) {
	if o.transactions = rng.IntN(3) == 0; o.transactions {
		o.operation[opCommit], o.operation[opRollback] = pick(rng, 2, 6, 20), pick(rng, 1, 3)
		if rng.IntN(8) == 0 { // quotas are in reach
			o.heavy()
		}
	}
	if o.moves = rng.IntN(3) == 0; o.moves {
		o.addForwarding(rng)
	}
}

// heavy makes messages large and entities small.
func (o *options) heavy() {
	o.maxBody = 50_000
	for i := range o.entities {
		if p := &o.entities[i].props; p.MaxSizeMegabytes > 0 {
			p.MaxSizeMegabytes, p.MaxMessageSizeKilobytes = 1, 256
		}
	}
}

// addForwarding has entities forward to one another, on two to four logs: to others that were made
// before them, and to any later.
func (o *options) addForwarding(rng *rand.Rand) {
	o.partitions, o.failuresTo = 2+rng.IntN(3), pick(rng, event.DeadLetter, event.DeadLetter, event.TransferDeadLetter)
	if o.refuses = !o.damage && rng.IntN(2) == 0; o.refuses {
		o.actions[actRevive] = pick(rng, 0, 2, 6)
	}
	if rng.IntN(6) == 0 {
		o.heavy()
	}
	o.actions[actCourier] = pick(rng, 20, 60, 120)
	o.operation[opUpdate] = max(3, o.operation[opUpdate])
	if o.topics { // a ring of topics makes many of each
		o.operation[opSend], o.operation[opBatch], o.steps = 5, 1, min(o.steps, 700)
	}
	for i := len(o.entities); i < 3; i++ {
		e := spec{kind: event.Queue, path: fmt.Sprintf("queue-%d", i), props: queueProperties(rng)}
		o.alter(rng, &e.props)
		o.entities = append(o.entities, e)
	}
	for i := range o.entities {
		e := &o.entities[i]
		e.props.MaxMessageSizeKilobytes = min(4*e.props.MaxMessageSizeKilobytes, 256)
		o.alter(rng, &e.props)
		if e.kind != event.Subscription {
			o.targets = append(o.targets, e.path)
		}
	}
	for i := range o.entities {
		if p := &o.entities[i].props; o.entities[i].kind == event.Topic && rng.IntN(2) == 0 {
			p.FilteringBeforePublishing = true
		}
	}
	for _, e := range o.entities {
		if e.props.FilteringBeforePublishing && rng.IntN(3) != 0 {
			o.narrow(rng, e.path)
			o.failuresTo = pick(rng, event.DeadLetter, event.TransferDeadLetter)
		}
	}
}

// narrow has each subscription of a topic want little: else a topic would hardly ever get a message
// that no subscription wants.
func (o *options) narrow(rng *rand.Rand, topic string) {
	for i := range o.entities {
		if e := &o.entities[i]; e.topic == topic {
			wants := pick(rng, model.Filter{Kind: model.Nothing}, model.Filter{Kind: model.ColorIs, Text: pick(rng, colors[1:]...)},
				model.Filter{Kind: model.NumberIs, N: rng.Int64N(numbersUpTo)})
			e.rules = []model.Rule{{Name: "one", Filter: wants}}
		}
	}
}

// forward has an entity forward to others of the world, or to itself, or to one that is not there,
// or not any more.
func (o *options) forward(rng *rand.Rand, p *event.Properties) {
	to := func() string {
		switch {
		case rng.IntN(2) == 0 || len(o.targets) == 0:
			return ""
		case rng.IntN(20) == 0:
			return "nowhere"
		}
		return pick(rng, o.targets...)
	}
	p.ForwardTo, p.ForwardDeadLetteredMessagesTo = "", ""
	if p.LockDuration == 0 {
		return // nothing leaves a topic but for its subscriptions
	}
	if !p.RequiresSession {
		p.ForwardTo = to()
	}
	p.ForwardDeadLetteredMessagesTo = to()
}

// alter changes settings of an entity for a world with these options.
func (o *options) alter(rng *rand.Rand, p *event.Properties) {
	if o.moves {
		o.forward(rng, p)
	}
	if o.idle {
		p.AutoDeleteOnIdle = pick(rng, event.Forever, 100*time.Millisecond, 5*time.Second, 90*time.Second, 5*time.Minute, 20*time.Minute)
	}
	if p.ForwardTo != "" && p.MaxSizeMegabytes == 0 { // a subscription that forwards is never idle
		p.AutoDeleteOnIdle = event.Forever
	}
	if o.headers && p.MaxMessageSizeKilobytes > 0 {
		p.MaxMessageSizeKilobytes = 256
	}
}

// properties are random settings of an entity.
func properties(rng *rand.Rand, kind event.EntityKind) event.Properties {
	p := queueProperties(rng)
	switch kind {
	case event.Topic:
		p.LockDuration, p.MaxDeliveryCount, p.DeadLetteringOnMessageExpiration = 0, 0, false
		p.FilteringBeforePublishing = rng.IntN(6) == 0
	case event.Subscription:
		p.MaxSizeMegabytes, p.MaxMessageSizeKilobytes, p.DuplicateDetectionWindow = 0, 0, 0
		p.DeadLetteringOnFilterError = rng.IntN(4) != 0
	}
	return p
}

func queueProperties(rng *rand.Rand) event.Properties {
	p := event.Properties{
		LockDuration:            pick(rng, 5*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond, time.Second, 5*time.Second),
		MaxDeliveryCount:        pick[uint32](rng, 1, 2, 3, 10),
		MaxSizeMegabytes:        pick[uint32](rng, 1, 1, 1024),
		MaxMessageSizeKilobytes: pick[uint32](rng, 1, 3, 256),

		DefaultMessageTimeToLive:         event.Forever,
		DeadLetteringOnMessageExpiration: rng.IntN(2) == 0,
		AutoDeleteOnIdle:                 event.Forever,
		DuplicateDetectionWindow:         pick(rng, 5*time.Millisecond, 100*time.Millisecond, 2*time.Second, time.Minute),
	}
	if rng.IntN(3) == 0 {
		p.DefaultMessageTimeToLive = pick(rng, time.Millisecond, 30*time.Millisecond, time.Second, 10*time.Second)
	}
	switch rng.IntN(20) {
	case 0:
		p.Status = event.Disabled
	case 1:
		p.Status = event.SendDisabled
	case 2:
		p.Status = event.ReceiveDisabled
	}
	return p
}
