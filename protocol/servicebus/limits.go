package servicebus

import "time"

// Limits bounds the resources of the broker that a peer can use (reliability.md 8). Zero fields
// mean their defaults.
type Limits struct {
	Handshake  time.Duration // from accept to the peer's open; default 10 s
	FirstToken time.Duration // from accept to the first valid token; default 20 s
	// silence after which a peer is closed; the open offers half of it; default 240 s
	IdleTimeout time.Duration
	// time without activity after which a link is detached; default 10 min
	LinkIdle time.Duration
	// time after which a connection without links left is closed; default 5 min
	NoLinks time.Duration
	// the same for a connection that never had a link; default 1 min
	NoLinksFresh time.Duration
	// time without progress after which a write ends the connection; default 30 s
	WriteStall         time.Duration
	WriteStallLogin    time.Duration // the same before the first valid token; default 5 s
	Close              time.Duration // grace for the peer's close and for Server.Close; default 5 s
	Connections        int           // open connections; default 5,000
	ConnectionsPerHost int           // connections without a valid token per address; default 100
	Unauthenticated    int           // connections without a valid token; default 1,000
	// failed logins from one address in a minute, before each costs a second; default 10
	FreeFailures int
	// failed logins from one address in a minute, before it is refused for a minute; default 20
	FailedLogins  int
	MaxFrameSize  uint32 // bytes, offered in open; default 65,536
	SASLFrameSize uint32 // bytes; default 512
	Channels      uint16 // highest channel number offered; default 4,999
	Sessions      int    // per connection; default 5,000
	SessionsLogin int    // the same before the first valid token; default 16
	Links         int    // per connection; default 20,000
	// bytes of a connection's sessions and links, with their texts; default 96 MiB
	Held              int
	Window            uint32 // incoming window of a session in transfers; default 5,000
	WindowLogin       uint32 // the same before the first valid token; default 100
	SenderCredit      uint32 // deliveries granted to a sending link; default 1,000
	SenderCreditLogin uint32 // the same on $cbs; default 100 (docs/decisions/0014)
	// deliveries of a receiving link's credit that are counted; default 5,000
	ReceiverCredit uint32
	// unsettled deliveries per connection above which no more are delivered; default 50,000
	Locked int
	// bytes of sends that the engine has not answered, above which reading pauses; default 32 MiB
	BufferedIn  int
	BufferedOut int // unwritten bytes above which reading pauses; default 8 MiB
	// each of the three before the first valid token, and bytes of answers without credit; default
	// 128 KiB
	BufferedLogin int
	// unanswered management and token requests per connection; default 1,000
	Requests    int
	RequestSize int // bytes of a request to $cbs or $management; default 65,536
	Tokens      int // claims per connection; default 1,000
	// characters of message-id, session id and partition key; default 128
	IDLength     int
	PropertySize int // bytes of one property; default 32 KiB
	HeaderSize   int // bytes of all properties of a message; default 64 KiB
	// bytes of a batch where an entity allows larger messages; default 1 MiB
	BatchSize int
	// open transactions with operations, per connection; default 2,000
	Transactions     int
	TransactionBytes int // bytes staged in transactions, per connection; default 64 MiB
	AllStagedBytes   int // bytes staged in transactions, of all connections; default 256 MiB
	// open transactions with operations, of all connections; default 20,000
	AllTransactions int
}

func (l Limits) withDefaults() Limits {
	orDuration := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	orInt := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	orUint := func(n *uint32, v uint32) {
		if *n == 0 {
			*n = v
		}
	}
	orDuration(&l.Handshake, 10*time.Second)
	orDuration(&l.FirstToken, 20*time.Second)
	orDuration(&l.IdleTimeout, 240*time.Second)
	orDuration(&l.LinkIdle, 10*time.Minute)
	orDuration(&l.NoLinks, 5*time.Minute)
	orDuration(&l.NoLinksFresh, time.Minute)
	orDuration(&l.WriteStall, 30*time.Second)
	orDuration(&l.WriteStallLogin, 5*time.Second)
	orDuration(&l.Close, 5*time.Second)
	orInt(&l.Connections, 5000)
	orInt(&l.ConnectionsPerHost, 100)
	orInt(&l.Unauthenticated, 1000)
	orInt(&l.FreeFailures, 10)
	orInt(&l.FailedLogins, 20)
	orUint(&l.MaxFrameSize, 65536)
	orUint(&l.SASLFrameSize, 512)
	if l.Channels == 0 {
		l.Channels = 4999
	}
	orInt(&l.Sessions, 5000)
	orInt(&l.SessionsLogin, 16)
	orInt(&l.Links, 20_000)
	orInt(&l.Held, 96<<20)
	orUint(&l.Window, 5000)
	orUint(&l.WindowLogin, 100)
	orUint(&l.SenderCredit, 1000)
	orUint(&l.SenderCreditLogin, 100)
	orUint(&l.ReceiverCredit, 5000)
	orInt(&l.Locked, 50_000)
	orInt(&l.BufferedIn, 32<<20)
	orInt(&l.BufferedOut, 8<<20)
	orInt(&l.BufferedLogin, 128<<10)
	orInt(&l.Requests, 1000)
	orInt(&l.RequestSize, 64<<10)
	orInt(&l.Tokens, 1000)
	orInt(&l.IDLength, 128)
	orInt(&l.PropertySize, 32<<10)
	orInt(&l.HeaderSize, 64<<10)
	orInt(&l.BatchSize, 1<<20)
	orInt(&l.Transactions, 2000)
	orInt(&l.TransactionBytes, 64<<20)
	orInt(&l.AllStagedBytes, 256<<20)
	orInt(&l.AllTransactions, 20_000)
	return l
}
