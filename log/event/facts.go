package event

// Facts are events that change nothing: they say what happened to people and programs around the messages, which nobody can find out
// later from the rest of the log. They ride with what is written anyway; no reply waits for one.

// Details are what history keeps of a message besides its body, for searches and for joining traces, since it outlives the body. A sender's texts are cut to
// [MaxDetail] bytes at a character.
type Details struct {
	BodySize      uint32 // bytes of the body sections of the message as sent
	Subject       []byte
	CorrelationID []byte // as text, whatever its type is
	ContentType   []byte
	TraceParent   []byte // W3C trace context: the application property Diagnostic-Id, or traceparent
	Source        Source
}

// MaxDetail bounds each of the texts of [Details], bytes.
const MaxDetail = 256

// Source says which message this one was made from.
type Source struct {
	Relation Relation // 0: it was sent
	Slice    Slice
	Sequence SequenceNumber
}

// Relation is what was done with the message it was made from.
type Relation uint8

const (
	Forwarded   Relation = 1
	Resubmitted Relation = 2 // from a dead-letter queue
	Replayed    Relation = 3 // from another data directory's history
)

func (r Relation) String() string {
	switch r {
	case Forwarded:
		return "forwarded"
	case Resubmitted:
		return "resubmitted"
	case Replayed:
		return "replayed"
	}
	return "unknown"
}

// MarshalText makes relations readable in JSON.
func (r Relation) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// RunStarted says that a run of the broker began, in each log it leads. It is among the first events of the run.
type RunStarted struct {
	Envelope
	Version  string // of the broker
	Settings string // a fingerprint of what it was started with; equal settings have equal ones
	Stop     Stop   // how the run before ended
	Cut      uint64 // bytes of unacknowledged tail that the start cut off this log
}

// Stop is how a run ended, as the next one finds it.
type Stop uint8

const (
	StopNone   Stop = 1 // there was no run before
	StopClean  Stop = 2 // in order
	StopKilled Stop = 3 // the process died, the machine did not
	StopCrash  Stop = 4 // the machine did, or nobody can tell
	StopFailed Stop = 5 // a write or sync of this log failed
)

func (s Stop) String() string {
	switch s {
	case StopNone:
		return "none"
	case StopClean:
		return "clean"
	case StopKilled:
		return "killed"
	case StopCrash:
		return "crash"
	case StopFailed:
		return "failed"
	}
	return "unknown"
}

// MarshalText makes stops readable in JSON.
func (s Stop) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LinkOpened says that a link to an entity, or to one of its sub-queues, was opened. Its origin says whose it is.
type LinkOpened struct {
	Envelope
	Role      Role
	SubQueue  SubQueue // of a receiver
	SessionID []byte   // of the session that a receiver was given
	InSession bool     // it was given one
	Missed    uint64   // links of the slice since the last LinkOpened that were not noted, since there were too many at a time
}

// Role is what a link does.
type Role uint8

const (
	Sender           Role = 1
	Receiver         Role = 2 // by peek-lock
	DeletingReceiver Role = 3 // by receive-and-delete
	Browser          Role = 4 // takes nothing
)

func (r Role) String() string {
	switch r {
	case Sender:
		return "sender"
	case Receiver:
		return "receiver"
	case DeletingReceiver:
		return "receiver-deleting"
	case Browser:
		return "browser"
	}
	return "unknown"
}

// MarshalText makes roles readable in JSON.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LinkClosed says that the link of its origin was closed: an origin is what a log names a link by.
type LinkClosed struct {
	Envelope
	Cause       CloseCause
	Condition   string // the AMQP error condition it was closed with; "": none
	Description string // and its description, or what the connection ended with
}

// CloseCause is why a link was closed.
type CloseCause uint8

const (
	ClosedByPeer     CloseCause = 1 // the client detached it, or ended its session or connection in order
	ClosedByBroker   CloseCause = 2 // with an error, as Condition says
	ClosedConnection CloseCause = 3 // the connection was lost
	ClosedStop       CloseCause = 4 // the broker was stopped
)

func (c CloseCause) String() string {
	switch c {
	case ClosedByPeer:
		return "peer"
	case ClosedByBroker:
		return "broker"
	case ClosedConnection:
		return "connection-lost"
	case ClosedStop:
		return "stop"
	}
	return "unknown"
}

// MarshalText makes causes readable in JSON.
func (c CloseCause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// SettlementRefused says that a settlement of a message, or the renewal of its lock, was refused. The event that ended the lock has the same token.
type SettlementRefused struct {
	Envelope
	Sequence SequenceNumber // 0: not known any more
	SubQueue SubQueue
	Token    LockToken
	Wanted   Wanted
	Why      Refusal
	Missed   uint64 // refusals in this log since the last SettlementRefused that were not noted, since there were too many at a time
}

// Wanted is what was to be done with a lock.
type Wanted uint8

const (
	WantedComplete   Wanted = 1
	WantedAbandon    Wanted = 2
	WantedRelease    Wanted = 3
	WantedDefer      Wanted = 4
	WantedDeadLetter Wanted = 5
	WantedRenew      Wanted = 6
)

func (w Wanted) String() string {
	switch w {
	case WantedComplete:
		return "complete"
	case WantedAbandon:
		return "abandon"
	case WantedRelease:
		return "release"
	case WantedDefer:
		return "defer"
	case WantedDeadLetter:
		return "dead-letter"
	case WantedRenew:
		return "renew"
	}
	return "unknown"
}

// MarshalText makes what was wanted readable in JSON.
func (w Wanted) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Refusal is why something was refused.
type Refusal uint8

const (
	RefusedOther       Refusal = 1
	RefusedLockLost    Refusal = 2
	RefusedSessionLost Refusal = 3
	RefusedDisabled    Refusal = 4 // by the entity's status
	RefusedNotAllowed  Refusal = 5
	RefusedInvalid     Refusal = 6
	RefusedTooLarge    Refusal = 7 // over the size of a message
	RefusedFull        Refusal = 8 // over the quota of the entity
	RefusedBusy        Refusal = 9
	RefusedNoMatch     Refusal = 10 // no rule of a topic that filters before publishing
	RefusedGone        Refusal = 11 // the entity was deleted
)

func (r Refusal) String() string {
	switch r {
	case RefusedOther:
		return "other"
	case RefusedLockLost:
		return "lock-lost"
	case RefusedSessionLost:
		return "session-lost"
	case RefusedDisabled:
		return "disabled"
	case RefusedNotAllowed:
		return "not-allowed"
	case RefusedInvalid:
		return "invalid"
	case RefusedTooLarge:
		return "too-large"
	case RefusedFull:
		return "entity-full"
	case RefusedBusy:
		return "busy"
	case RefusedNoMatch:
		return "no-match"
	case RefusedGone:
		return "entity-gone"
	}
	return "unknown"
}

// MarshalText makes refusals readable in JSON.
func (r Refusal) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// SendsRefused counts messages that were not let in, at most one event a second for an entity and a reason. Its origin is that of the
// last one.
type SendsRefused struct {
	Envelope
	Why   Refusal
	Count uint64
	Since Time // of the first of them
}

// MaxReason bounds the texts of a [ReasonGiven], bytes.
const MaxReason = 1024

// ReasonGiven says, in an operator's words, why the operator did what the other events of its record say. Where no reason was given it has the tracking id
// alone, by which the request can be found in the log of the client.
type ReasonGiven struct {
	Envelope
	Reason     string // "": none was given
	TrackingID string // of the request; "": none
}

// Kind implements [Event].
func (*RunStarted) Kind() Kind { return KindRunStarted }

func (r *RunStarted) encode(e *encoder) {
	e.text(r.Version)
	e.text(r.Settings)
	e.byte(byte(r.Stop))
	e.uvarint(r.Cut)
}

func (r *RunStarted) decode(d *decoder) {
	r.Version = d.text()
	r.Settings = d.text()
	r.Stop = Stop(d.among("stop of a run", byte(StopNone), byte(StopFailed)))
	r.Cut = d.uvarint()
}

// Kind implements [Event].
func (*LinkOpened) Kind() Kind { return KindLinkOpened }

func (l *LinkOpened) encode(e *encoder) {
	e.byte(byte(l.Role))
	e.byte(byte(l.SubQueue))
	e.bool(l.InSession)
	e.bytes(l.SessionID)
	e.uvarint(l.Missed)
}

func (l *LinkOpened) decode(d *decoder) {
	l.Role = Role(d.among("role of a link", byte(Sender), byte(Browser)))
	l.SubQueue = SubQueue(d.among("sub-queue", byte(Main), byte(TransferDeadLetter)))
	l.InSession = d.bool()
	l.SessionID = d.bytes()
	l.Missed = d.uvarint()
}

// Kind implements [Event].
func (*LinkClosed) Kind() Kind { return KindLinkClosed }

func (l *LinkClosed) encode(e *encoder) {
	e.byte(byte(l.Cause))
	e.text(l.Condition)
	e.text(l.Description)
}

func (l *LinkClosed) decode(d *decoder) {
	l.Cause = CloseCause(d.among("cause of a close", byte(ClosedByPeer), byte(ClosedStop)))
	l.Condition = d.text()
	l.Description = d.text()
}

// Kind implements [Event].
func (*SettlementRefused) Kind() Kind { return KindSettlementRefused }

func (s *SettlementRefused) encode(e *encoder) {
	e.seq(s.Sequence)
	e.byte(byte(s.SubQueue))
	e.token(&s.Token)
	e.byte(byte(s.Wanted))
	e.byte(byte(s.Why))
	e.uvarint(s.Missed)
}

func (s *SettlementRefused) decode(d *decoder) {
	s.Sequence = d.seq()
	s.SubQueue = SubQueue(d.among("sub-queue", byte(Main), byte(TransferDeadLetter)))
	d.token(&s.Token)
	s.Wanted = Wanted(d.among("settlement", byte(WantedComplete), byte(WantedRenew)))
	s.Why = Refusal(d.among("refusal", byte(RefusedOther), byte(RefusedGone)))
	s.Missed = d.uvarint()
}

// Kind implements [Event].
func (*SendsRefused) Kind() Kind { return KindSendsRefused }

func (s *SendsRefused) encode(e *encoder) {
	e.byte(byte(s.Why))
	e.uvarint(s.Count)
	e.time(s.Since)
}

func (s *SendsRefused) decode(d *decoder) {
	s.Why = Refusal(d.among("refusal", byte(RefusedOther), byte(RefusedGone)))
	s.Count = d.uvarint()
	s.Since = d.time()
}

// Kind implements [Event].
func (*ReasonGiven) Kind() Kind { return KindReasonGiven }

func (r *ReasonGiven) encode(e *encoder) {
	e.text(r.Reason)
	e.text(r.TrackingID)
}

func (r *ReasonGiven) decode(d *decoder) {
	r.Reason = d.text()
	r.TrackingID = d.text()
}

// The first byte of a message's details: a flag for each detail that follows. Most messages have few.
const (
	detailSubject = 1 << iota
	detailCorrelation
	detailContentType
	detailTrace
	detailSource
	detailArrival                      // of events that say so
	detailReserved                     // of a MessageScheduled
	detailKeyed                        // of events that store a message
	detailFlags    = detailArrival - 1 // of every message
)

// extras are what follows a message's details in some kinds of events.
type extras struct {
	arrival  *Arrival
	reserved bool
	keyed    bool
}

func (e *encoder) details(x *Details, also extras) {
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
	if also.arrival != nil {
		flags |= detailArrival
	}
	if also.reserved {
		flags |= detailReserved
	}
	if also.keyed {
		flags |= detailKeyed
	}
	e.byte(flags)
	for _, text := range texts {
		if len(text) > 0 {
			e.bytes(text)
		}
	}
	if flags&detailSource != 0 {
		e.byte(byte(x.Source.Relation))
		e.slice(x.Source.Slice)
		e.seq(x.Source.Sequence)
	}
	if also.arrival != nil {
		e.arrival(also.arrival)
	}
}

// details reads a message's details, and what follows them. allowed has the flags that the kind of event may have beyond those of details.
func (d *decoder) details(x *Details, allowed byte) (also extras) {
	*x = Details{BodySize: d.uint32()}
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
		x.Source.Relation = Relation(d.among("relation", byte(Forwarded), byte(Replayed)))
		x.Source.Slice = d.slice()
		x.Source.Sequence = d.seq()
	}
	if flags&detailArrival != 0 {
		also.arrival = d.arrival()
	}
	also.reserved, also.keyed = flags&detailReserved != 0, flags&detailKeyed != 0
	return also
}
