package event

// Facts are events that change nothing. They record what happened to clients and programs around
// the messages, which the rest of the log does not show. They are written together with other
// events; no reply waits for one.

// Details are the facts about a message that history keeps besides its body, for searches and for
// joining traces, because they outlive the body. A sender's texts are cut to [MaxDetail] bytes at a
// character boundary.
type Details struct {
	BodySize      uint32 // bytes of the body sections of the message as sent
	Subject       []byte
	CorrelationID []byte // as text, whatever its type
	ContentType   []byte
	// W3C trace context: the application property Diagnostic-Id, or traceparent
	TraceParent []byte
	Source      Source
}

// MaxDetail limits each of the texts of [Details], bytes.
const MaxDetail = 256

// Source identifies the message that this one was made from.
type Source struct {
	Relation Relation // 0: it was sent
	Slice    Slice
	Sequence SequenceNumber
}

// Relation is how a message was made from another one.
//
//event:closed relation
//event:words forwarded resubmitted replayed
type Relation uint8

const (
	Forwarded   Relation = 1
	Resubmitted Relation = 2 // from a dead-letter queue
	Replayed    Relation = 3 // from another data directory's history
)

// RunStarted says that a run of the broker began, in each log that the run leads. It is among the
// first events of the run.
//
//event:kind 60 verb=run fact
type RunStarted struct {
	Envelope
	Version  string `export:"description"` // of the broker
	Settings string // a fingerprint of its settings; equal settings have equal fingerprints
	Stop     Stop   `export:"cause"` // how the previous run ended
	Cut      uint64 // bytes of unacknowledged tail that the start cut off this log
}

// Stop is how a run ended, as found by the next one.
//
//event:closed stop of a run
//event:words none clean killed crash failed
type Stop uint8

const (
	StopNone   Stop = 1 // there was no previous run
	StopClean  Stop = 2 // in order
	StopKilled Stop = 3 // the process died, but not the machine
	StopCrash  Stop = 4 // the machine died, or the cause is unknown
	StopFailed Stop = 5 // a write or sync of this log failed
)

// LinkOpened says that a link to an entity, or to one of its sub-queues, was opened. Its origin
// identifies the link.
//
//event:kind 61 verb=link-opened fact
type LinkOpened struct {
	Envelope
	Role     Role     `export:"cause"`
	SubQueue SubQueue // of a receiver
	// the session given to a receiver
	SessionID []byte `log:"after=InSession" export:"session_id"`
	InSession bool   // a receiver was given a session
	// number of links of the slice since the last LinkOpened that were not recorded, because there
	// were too many at a time
	Missed uint64
}

// Role is the role of a link.
//
//event:closed role of a link
//event:words sender receiver receiver-deleting browser
type Role uint8

const (
	Sender           Role = 1
	Receiver         Role = 2 // by peek-lock
	DeletingReceiver Role = 3 // by receive-and-delete
	Browser          Role = 4 // receives nothing
)

// LinkClosed says that the link of its origin was closed: a log identifies a link by its origin.
//
//event:kind 62 verb=link-closed fact
type LinkClosed struct {
	Envelope
	Cause CloseCause `export:"cause"`
	// the AMQP error condition of the close; "": none
	Condition string `export:"reason"`
	// its description, or the error that ended the connection
	Description string `export:"description"`
}

// CloseCause is why a link was closed.
//
//event:closed cause of a close
//event:words peer broker connection-lost stop
type CloseCause uint8

const (
	// the client detached it, or ended its session or connection in order
	ClosedByPeer     CloseCause = 1
	ClosedByBroker   CloseCause = 2 // with an error, see Condition
	ClosedConnection CloseCause = 3 // the connection was lost
	ClosedStop       CloseCause = 4 // the broker was stopped
)

// SettlementRefused says that the settlement of a message, or the renewal of its lock, was refused.
// The event that ended the lock has the same token.
//
//event:kind 63 verb=refused fact
type SettlementRefused struct {
	Envelope
	Sequence SequenceNumber `export:"number"` // 0: no longer known
	SubQueue SubQueue
	Token    LockToken `export:"token"`
	Wanted   Wanted    `export:"reason"`
	Why      Refusal   `export:"cause"`
	// refusals in this log since the last SettlementRefused that were not recorded, because there
	// were too many at a time
	Missed uint64
}

// Wanted is the refused operation on a lock.
//
//event:closed settlement
//event:words complete abandon release defer dead-letter renew
type Wanted uint8

const (
	WantedComplete   Wanted = 1
	WantedAbandon    Wanted = 2
	WantedRelease    Wanted = 3
	WantedDefer      Wanted = 4
	WantedDeadLetter Wanted = 5
	WantedRenew      Wanted = 6
)

// Refusal is the reason of a refusal.
//
//event:closed refusal
//event:words other lock-lost session-lost disabled not-allowed invalid too-large entity-full busy no-match entity-gone
type Refusal uint8

const (
	RefusedOther       Refusal = 1
	RefusedLockLost    Refusal = 2
	RefusedSessionLost Refusal = 3
	RefusedDisabled    Refusal = 4 // by the entity's status
	RefusedNotAllowed  Refusal = 5
	RefusedInvalid     Refusal = 6
	RefusedTooLarge    Refusal = 7 // exceeds the size limit of a message
	RefusedFull        Refusal = 8 // exceeds the quota of the entity
	RefusedBusy        Refusal = 9
	RefusedNoMatch     Refusal = 10 // no rule of a topic that filters before publishing
	RefusedGone        Refusal = 11 // the entity was deleted
)

// SendsRefused counts refused messages, in at most one event a second for an entity and a reason.
// Its origin is that of the last refused message.
//
//event:kind 64 verb=sends-refused fact
type SendsRefused struct {
	Envelope
	Why   Refusal `export:"cause"`
	Count uint64  `export:"messages"`
	Since Time    // of the first of them
}

// MaxReason limits the texts of a [ReasonGiven], bytes.
const MaxReason = 1024

// ReasonGiven contains an operator's reason for the other events of its record. Without a reason it
// has only the tracking id, with which the request can be found in the client's log.
//
//event:kind 65 verb=reason fact
type ReasonGiven struct {
	Envelope
	Reason     string `export:"reason"` // "": none was given
	TrackingID string // of the request; "": none
}

// The first byte of a message's details has a flag for each detail that follows. Most messages have
// few.
const (
	detailSubject = 1 << iota
	detailCorrelation
	detailContentType
	detailTrace
	detailSource
	detailArrival                      // of events that may have an arrival
	detailReserved                     // of a MessageScheduled
	detailKeyed                        // of events that store a message
	detailFlags    = detailArrival - 1 // of every message
)

// extras are the fields that follow a message's details in some kinds of events, by their names
// there.
type extras struct {
	Arrival  *Arrival
	Reserved bool
	Keyed    bool
}

func (x *Details) encode(e *encoder, also extras) {
	e.uvarint(uint64(x.BodySize))
	texts := [...][]byte{x.Subject, x.CorrelationID, x.ContentType, x.TraceParent}
	var flags byte
	for i, text := range texts {
		if len(text) > 0 {
			flags |= detailSubject << i
		}
	}
	if x.Source.Relation != 0 {
		flags |= detailSource
	}
	if also.Arrival != nil {
		flags |= detailArrival
	}
	if also.Reserved {
		flags |= detailReserved
	}
	if also.Keyed {
		flags |= detailKeyed
	}
	e.byte(flags)
	for _, text := range texts {
		if len(text) > 0 {
			e.bytes(text)
		}
	}
	if flags&detailSource != 0 {
		x.Source.encode(e)
	}
	if also.Arrival != nil {
		also.Arrival.encode(e)
	}
}

// decode reads a message's details and the fields that follow them. allowed has the flags that the
// kind of event may have besides those of details.
func (x *Details) decode(d *decoder, allowed byte) (also extras) {
	x.BodySize = d.uint32()
	flags := d.byte()
	if flags&^(detailFlags|allowed) != 0 {
		d.fail("flags %#x of a message's details", flags)
	}
	for i, text := range [...]*[]byte{&x.Subject, &x.CorrelationID, &x.ContentType, &x.TraceParent} {
		if flags&(detailSubject<<i) != 0 {
			*text = d.bytes()
		}
	}
	if flags&detailSource != 0 {
		x.Source.decode(d)
	}
	if flags&detailArrival != 0 {
		also.Arrival = new(Arrival)
		also.Arrival.decode(d)
	}
	also.Reserved, also.Keyed = flags&detailReserved != 0, flags&detailKeyed != 0
	return also
}
