package amqp

// Terminus is the target of a link: *Target or *Coordinator.
type Terminus interface {
	Composite
	terminus()
}

// Source is the place where a link takes messages from (AMQP 3.5.3). Decoding and encoding keep its
// values, so an attach can echo the received source (wire-protocol 0.3).
type Source struct {
	Address      any         // as sent, a string in practice; nil means null
	Durable      Opt[uint32] // 0 none, 1 configuration, 2 unsettled state
	ExpiryPolicy Symbol      // "" means null
	Timeout      Opt[uint32] // seconds
	// false is written as null: an empty source is 11 nulls (wire-protocol 3.1)
	Dynamic               bool
	DynamicNodeProperties Map
	DistributionMode      Symbol // "" means null
	// described values keep their descriptors (wire-protocol 4.2)
	Filter         Map
	DefaultOutcome DeliveryState // nil means null
	Outcomes       []Symbol
	Capabilities   []Symbol
}

// Target is the place where a link puts messages (AMQP 3.5.4).
type Target struct {
	Address               any         // as sent, a string in practice; nil means null
	Durable               Opt[uint32] // as in Source
	ExpiryPolicy          Symbol      // "" means null
	Timeout               Opt[uint32] // seconds
	Dynamic               bool
	DynamicNodeProperties Map
	Capabilities          []Symbol
}

// Coordinator is the target of a link that controls transactions (AMQP 4.5.1, wire-protocol 7.1).
type Coordinator struct{ Capabilities []Symbol }

func (*Target) terminus()      {}
func (*Coordinator) terminus() {}

func (*Source) descriptor() byte      { return descSource }
func (*Target) descriptor() byte      { return descTarget }
func (*Coordinator) descriptor() byte { return descCoordinator }
