package amqp

// DeliveryState is the state of a delivery: Accepted, Rejected, Released, Modified, Received,
// TransactionalState or Declared, as values and not as pointers. Use a type switch; states that
// hold maps cannot be compared with ==.
type DeliveryState interface {
	Composite
	deliveryState()
}

// The states without fields. Decoders return these values, so they take no memory.
var (
	StateAccepted DeliveryState = Accepted{}
	StateReleased DeliveryState = Released{}
)

// Accepted means that the server has stored a message, or that a receiver has completed it
// (wire-protocol 3.3, 4.6).
type Accepted struct{}

// Rejected means that a message was refused or, from a receiver, dead-lettered. As the answer to a
// dead-letter its error must be nil (wire-protocol 0.8); as the answer to a send it must not be nil
// (wire-protocol 3.3).
type Rejected struct{ Error *Error }

// Released returns a delivery unchanged.
type Released struct{}

// Modified returns a delivery: abandoned, or deferred if UndeliverableHere is set (wire-protocol
// 4.6).
type Modified struct {
	DeliveryFailed     bool
	UndeliverableHere  bool
	MessageAnnotations Map // properties to modify; keys are symbols or strings
}

// Received tells how much of a delivery has arrived (AMQP 3.4.1). It is not an outcome.
type Received struct {
	SectionNumber uint32
	SectionOffset uint64 // bytes
}

// TransactionalState is a state that takes effect with a transaction (AMQP 4.5.8).
type TransactionalState struct {
	TxnID   []byte
	Outcome DeliveryState // nil means null, as on a transfer
}

// Declared gives a client the id of the transaction that it has declared (AMQP 4.5.7).
type Declared struct{ TxnID []byte }

func (Accepted) deliveryState()           {}
func (Rejected) deliveryState()           {}
func (Released) deliveryState()           {}
func (Modified) deliveryState()           {}
func (Received) deliveryState()           {}
func (TransactionalState) deliveryState() {}
func (Declared) deliveryState()           {}

func (Accepted) descriptor() byte           { return descAccepted }
func (Rejected) descriptor() byte           { return descRejected }
func (Released) descriptor() byte           { return descReleased }
func (Modified) descriptor() byte           { return descModified }
func (Received) descriptor() byte           { return descReceived }
func (TransactionalState) descriptor() byte { return descTransactionalState }
func (Declared) descriptor() byte           { return descDeclared }
