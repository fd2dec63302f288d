package settings

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Settings is everything a person decides about one broker.
type Settings struct {
	Mode      Mode
	Tier      Tier
	Storage   Storage
	Clock     Clock
	History   History
	Listening Listening
	TLS       TLS
	Entities  Entities
	Logging   Logging
	// FailuresTo is the sub-queue of an entity that gets what its ForwardTo cannot deliver: the one
	// for dead letters or that for transfers.
	FailuresTo event.SubQueue
	Access     []AccessRule // never empty after Load
	Identity   Identity
	Limits     Limits
	// MemoryLimit is how much memory the process may take, in bytes; 0: GOMEMLIMIT, or 90 % of what
	// the control group or the machine has.
	MemoryLimit int64
	// MemoryBudget is what that comes to on this machine; 0: nothing bounds it. It is no setting:
	// the caller of broker.Start fills it in.
	MemoryBudget int64
	// Version is that of the program, which the log of each run names. It is no setting: the caller
	// of broker.Start fills it in.
	Version string
}

// Mode is what the broker is for.
type Mode string

const (
	// Development is for a developer's machine and for test containers: the emulator's addresses
	// and its well-known key.
	Development Mode = "development"
	// Production needs access rules with keys of your own.
	Production Mode = "production"
)

// Tier is the tier of the cloud that the namespace acts as: it bounds the sizes that clients may
// ask for.
type Tier string

const (
	// Standard has messages of 256 KiB and entities of 5 GB; what the entity file asks for is not
	// bounded by it.
	Standard Tier = "standard"
	// Premium has messages up to 100 MiB and entities of 80 GB.
	Premium Tier = "premium"
)

// Storage says where and how messages are kept.
type Storage struct {
	Data string // data directory; created if it does not exist
	// number of partition logs, 1 to 64; fixed when the directory is made. 0: 4, or what the
	// directory has
	Partitions int
	// bytes of the disk that are kept for the time when it is full; 0: none
	Reserve int
	// bytes that are to be free before the disk has little room; 0: the smaller of 5 % of it and 1
	// GiB
	Low int
	// how long after its end a chapter is sealed; 0: never, negative: at once
	SealAfter  time.Duration
	ScrubEvery time.Duration // within what time each byte of the log is read again; 0: never
	// a partition whose log fails is taken out of service; else the broker ends
	Fence bool
}

// History says how long history of the namespace is kept (docs/decisions/0049). What is not given
// stays as the log has it.
type History struct {
	Policy      event.HistoryPolicy
	Share       uint32 // percent of the disk; 0: not given
	BeforeSends engine.HistoryBeforeSends
	// of entities; those that the log has beside them stay
	Patterns []PatternPolicy `json:",omitzero"`
}

// Clock says with which clock of the machine the broker starts (reliability.md 1.4).
type Clock struct {
	MaxGap time.Duration // how far it may be ahead of the newest event in the log; 0: 400 days
	// which of the two is believed where they are apart; a decision about one start
	Accept host.AcceptClock
	Reason string // why; "": none was given
}

// Listening says where clients connect.
type Listening struct {
	// host:port each, with the mode behind a slash where it is not the usual one; port 0 picks a
	// free one
	Addresses []string
	// further names of this machine; in production mode tokens may be made for no others
	Hosts         []string
	InsecureNoTLS bool // allow addresses other than loopback without TLS
	// allow addresses other than loopback although everybody can log in; development mode only
	InsecureNoAuth bool
	AcceptRisk     bool // allow public addresses too; only together with one of the two
}

// Identity says whose identity tokens (JWTs) are accepted beside what access rules sign.
type Identity struct {
	Issuer     string   // URL of an OpenID Connect issuer; "": none
	Audiences  []string // a token needs one of them
	RolesClaim string   // claim with the roles that give rights; "": roles
	// everything that looks like a bearer token has all rights; development mode only
	AnyBearer bool
}

// ListenMode says which connections an address takes.
type ListenMode string

const (
	ListenAny   ListenMode = "any"   // with TLS and without
	ListenTLS   ListenMode = "tls"   // with TLS
	ListenPlain ListenMode = "plain" // without TLS
)

// TLS says where the certificate is from.
type TLS struct {
	From            TLSSource // never empty after Load
	CertificateFile string    // PEM; for TLSFiles
	KeyFile         string    // PEM; for TLSFiles
}

// TLSSource is where a certificate is from.
type TLSSource string

const (
	TLSOff   TLSSource = "off"   // there is none, and no TLS
	TLSFiles TLSSource = "files" // of the operator
	// made in the data directory, signed by an authority made there; development mode only
	TLSGenerated TLSSource = "generated"
)

// Entities says which entities must exist. Those that exist already and are not named stay.
type Entities struct {
	File string // the emulator's Config.json, or the same in YAML; "": none
	// names of queues that get the cloud's default properties, unless the file describes them
	Queues []string
	// Put is what both come to, in an order in which it can be put: filled in by Load.
	Put []engine.PutEntity
	// Ignored are the unknown keys of a file that is read as the emulator reads it.
	Ignored Problems
	// Used names the emulator's defaults that entities of the file have, a line for each kind.
	Used []string
	// Sample says that Put is the emulator's sample, for a namespace that has no entities of its
	// own.
	Sample bool

	where map[string]string // by lower-case path: what asked for the entity
	// by lower-case path: the properties that are given, where others stay as they are
	given map[string]uint32
}

// Keep gives an entity to put the properties of the one that exists, except those that the settings
// give. It changes nothing where the settings decide about all of them.
func (e Entities) Keep(put *engine.PutEntity, have *engine.Entity) {
	given, keeps := e.given[strings.ToLower(put.Path)]
	if !keeps || put.Kind != have.Kind {
		return
	}
	kept := have.Properties
	for i, p := range properties {
		if given>>i&1 == 1 {
			reflect.ValueOf(p.field(&kept)).Elem().Set(reflect.ValueOf(p.field(&put.Properties)).Elem())
		}
	}
	put.Properties = kept
}

// Where says what asked for an entity, for messages: file, line and path, or the flag.
func (e Entities) Where(path string) string {
	if where := e.where[strings.ToLower(path)]; where != "" {
		return where
	}
	return fmt.Sprintf("entity %q", path)
}

// Logging says what the process tells about itself, on standard error.
type Logging struct {
	Level  slog.Level
	Format string // text or json
}

// AccessRule is a named pair of keys and what they allow. Either key signs tokens.
type AccessRule struct {
	Name      string
	Rights    []Right
	Primary   Secret
	Secondary Secret // zero: none
}

// Right is something an access rule allows.
type Right string

// The rights. Manage includes all others.
const (
	Manage      Right = "Manage"
	Send        Right = "Send"
	Listen      Right = "Listen"
	ReadHistory Right = "ReadHistory" // to ask the broker what happened
	ReadBodies  Right = "ReadBodies"  // to see bodies of messages with that
)

// Limits bounds what clients can make the broker spend (reliability.md 8). Zero means the default
// given.
type Limits struct {
	Connections int // open connections; 5,000
	// connections of one address that have shown no valid token yet; 100
	ConnectionsPerAddress int
	Unauthenticated       int // all connections that have shown no valid token yet; 1,000
	Sessions              int // AMQP sessions per connection; 5,000
	Links                 int // links per connection; 20,000
	Locked                int // messages locked through one connection; 50,000
	MaxFrameSize          int // bytes of an AMQP frame, at least 512; 65,536
	// bytes a connection has sent and the log has not taken; 32 MiB
	BufferedIn  int
	BufferedOut int // bytes waiting to be written to a connection; 8 MiB
	// of a connection that have operations and are not over; 2,000
	Transactions        int
	TransactionBytes    int // staged in the transactions of a connection; 64 MiB
	AllTransactionBytes int // staged in the transactions of all connections; 256 MiB
	// of all connections that have operations and are not over; 20,000
	AllTransactions int
	Partitioned     int           // partitioned queues and topics of the namespace; 100
	IdleTimeout     time.Duration // silence after which a connection is closed; 240 s
	LinkIdle        time.Duration // a link without activity is detached; 10 min
	NoLinks         time.Duration // a connection that has no links any more is closed; 5 min
}

// OpenToAll reports whether everybody can log in: with the emulator's key, which is known, or with
// any bearer token.
func (s Settings) OpenToAll() bool { return s.DevelopmentKey() || s.Identity.AnyBearer }

// Names and keys of the emulator's well-known connection string.
const (
	developmentRule = "RootManageSharedAccessKey"
	developmentKey  = "SAS_KEY_VALUE"
)

// Addresses of the emulator: AMQP, and its second port.
const (
	developmentAMQP = "127.0.0.1:5672"
	developmentHTTP = "127.0.0.1:5300"
)

func defaults() Settings {
	return Settings{
		Mode:       Development,
		Tier:       Standard,
		FailuresTo: event.DeadLetter,
		Storage:    Storage{Data: "data", Reserve: 64 << 20, SealAfter: 10 * time.Minute, ScrubEvery: 7 * 24 * time.Hour},
		Logging:    Logging{Level: slog.LevelInfo, Format: "text"},
	}
}

// IsDevelopment reports whether one of the rule's keys is the emulator's, which everybody knows.
func (r AccessRule) IsDevelopment() bool {
	return r.Primary.Reveal() == developmentKey || r.Secondary.Reveal() == developmentKey
}

// DevelopmentKey reports whether any access rule has the emulator's key.
func (s Settings) DevelopmentKey() bool {
	return slices.ContainsFunc(s.Access, AccessRule.IsDevelopment)
}
