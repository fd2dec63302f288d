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

// Settings are all decisions of an operator about one broker.
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
	// FailuresTo is the sub-queue of an entity for messages that its ForwardTo cannot deliver:
	// dead letters or transfers.
	FailuresTo event.SubQueue
	Access     []AccessRule // never empty after Load
	Identity   Identity
	Limits     Limits
	// MemoryLimit bounds the memory of the process, in bytes; 0 means GOMEMLIMIT, or 90 % of the
	// memory of the control group or the machine.
	MemoryLimit int64
	// MemoryBudget is the resulting limit on this machine, in bytes; 0 means none. It is not a
	// setting: the caller of broker.Start sets it.
	MemoryBudget int64
	// Version is the program's version, which the log names for each run. It is not a setting: the
	// caller of broker.Start sets it.
	Version string
	// Notes are about settings that should be changed. They are not settings themselves: Load sets
	// them.
	Notes []Note `json:"-"`
}

// Mode is the purpose of the broker.
type Mode string

const (
	// Development is for a developer's machine and for test containers: the emulator's addresses
	// and its well-known key.
	Development Mode = "development"
	// Production needs access rules with your own keys.
	Production Mode = "production"
)

// Tier is the tier of the service that the namespace imitates. It bounds the sizes that clients may
// ask for.
type Tier string

const (
	// Standard has messages of 256 KiB and entities of 5 GB. It does not bound the sizes in the
	// entity file.
	Standard Tier = "standard"
	// Premium has messages up to 100 MiB and entities of 80 GB.
	Premium Tier = "premium"
)

// Storage has the settings of the data directory.
type Storage struct {
	Data string // data directory; created if it does not exist
	// number of partition logs, 1 to 64; fixed when the directory is created. 0 means 4, or the
	// number that the directory has
	Partitions int
	// bytes of the disk that are reserved for settlements when it is full; 0 means none
	Reserve int
	// free bytes below which the disk is low; 0 means the smaller of 5 % of it and 1 GiB
	Low int
	// time from the end of a chapter until it is sealed; 0 means never, a negative one at once
	SealAfter  time.Duration
	ScrubEvery time.Duration // time within which each byte of the log is read again; 0 means never
	// a partition whose log fails is taken out of service; else the broker ends
	Fence bool
}

// History has the history policies (docs/decisions/0049). A zero field leaves the value that the
// log has.
type History struct {
	Policy      event.HistoryPolicy
	Share       uint32 // percent of the disk; 0 means that it is not given
	BeforeSends engine.HistoryBeforeSends
	// of entities; other patterns that the log has stay
	Patterns []PatternPolicy `json:",omitzero"`
}

// Clock has the settings about the machine's clock at a start (reliability.md 1.4).
type Clock struct {
	// how far the clock may be ahead of the newest event in the log; 0 means 400 days
	MaxGap time.Duration
	// which of clock and log is right where they differ; a decision about one start
	Accept host.AcceptClock
	Reason string // of the decision; "" means that none was given
}

// Listening has the settings of the addresses for clients.
type Listening struct {
	// host:port each, followed by a slash and the mode where it is not the usual one; port 0 picks
	// a free one
	Addresses []string
	// further names of this machine; in production mode tokens for other names are refused
	Hosts         []string
	InsecureNoTLS bool // allow addresses other than loopback without TLS
	// allow addresses other than loopback although all clients can log in; development mode only
	InsecureNoAuth bool
	AcceptRisk     bool // allow public addresses as well; only together with one of the two
}

// Identity has the settings of identity tokens (JWTs), which are accepted in addition to tokens
// that are signed with the keys of access rules.
type Identity struct {
	Issuer     string   // URL of an OpenID Connect issuer; "" means none
	Audiences  []string // a token needs one of them
	RolesClaim string   // claim with the roles that give rights; "" means roles
	// anything that looks like a bearer token has all rights; development mode only
	AnyBearer bool
}

// ListenMode selects the connections that an address takes.
type ListenMode string

const (
	ListenAny   ListenMode = "any"   // with TLS and without
	ListenTLS   ListenMode = "tls"   // with TLS
	ListenPlain ListenMode = "plain" // without TLS
)

// TLS has the settings of the certificate.
type TLS struct {
	From            TLSSource // never empty after Load
	CertificateFile string    // PEM; for TLSFiles
	KeyFile         string    // PEM; for TLSFiles
}

// TLSSource is the origin of a certificate.
type TLSSource string

const (
	TLSOff   TLSSource = "off"   // no certificate, and no TLS
	TLSFiles TLSSource = "files" // of the operator
	// made in the data directory and signed by an authority made there; development mode only
	TLSGenerated TLSSource = "generated"
)

// Entities are the entities that must exist. Existing ones that are not named stay.
type Entities struct {
	File string // the emulator's Config.json, or the same in YAML; "" means none
	// names of queues that get the service's default properties, unless the file describes them
	Queues []string
	// Put has the entities of both, in an order in which they can be put. Load sets it.
	Put []engine.PutEntity
	// Ignored are the unknown keys of a file that is read as the emulator reads it.
	Ignored Problems
	// Used names the emulator's defaults that entities of the file have, a line for each kind.
	Used []string
	// Sample means that Put is the emulator's sample, for a namespace without entities.
	Sample bool

	where map[string]string // by lower-case path: the place that names the entity
	// by lower-case path: the properties that are given, if others stay as they are
	given map[string]uint32
}

// Keep sets the properties of an entity to put to those of the existing entity, except those that
// the settings give. It changes nothing where the settings decide about all properties.
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

// Where returns the place that names an entity, for messages: file, line and path, or the flag.
func (e Entities) Where(path string) string {
	if where := e.where[strings.ToLower(path)]; where != "" {
		return where
	}
	return fmt.Sprintf("entity %q", path)
}

// Logging has the settings of the log on standard error.
type Logging struct {
	Level  slog.Level
	Format string // text or json
}

// AccessRule is a named pair of keys with their rights. Either key signs tokens.
type AccessRule struct {
	Name      string
	Rights    []Right
	Primary   Secret
	Secondary Secret // the zero value means none
}

// Right is a right that an access rule gives.
type Right string

// The rights. Manage includes all others.
const (
	Manage      Right = "Manage"
	Send        Right = "Send"
	Listen      Right = "Listen"
	ReadHistory Right = "ReadHistory" // to query history
	ReadBodies  Right = "ReadBodies"  // to see bodies of messages in its answers
)

// Limits bound the resources that clients can make the broker spend (reliability.md 8). Zero means
// the default. Limits that no operator has a reason to change have the defaults of
// protocol/servicebus (docs/decisions/0091).
type Limits struct {
	Connections     int // open connections; 5,000
	Unauthenticated int // connections that have not shown a valid token yet; 1,000
	Locked          int // messages locked through one connection; 50,000
	// bytes that a connection has sent and the log has not taken; 32 MiB
	BufferedIn  int
	BufferedOut int // bytes that wait to be written to a connection; 8 MiB
	// open transactions with operations, of a connection; 2,000
	Transactions        int
	TransactionBytes    int // bytes staged in the transactions of a connection; 64 MiB
	AllTransactionBytes int // bytes staged in the transactions of all connections; 256 MiB
	// open transactions with operations, of all connections; 20,000
	AllTransactions int
	Partitioned     int           // partitioned queues and topics of the namespace; 100
	IdleTimeout     time.Duration // silence after which a connection is closed; 240 s
	LinkIdle        time.Duration // time without activity after which a link is detached; 10 min
	NoLinks         time.Duration // time after which a connection without links is closed; 5 min
}

// OpenToAll reports whether all clients can log in: with the emulator's key, which is known, or
// with any bearer token.
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

// IsDevelopment reports whether one of the rule's keys is the emulator's, which is known.
func (r AccessRule) IsDevelopment() bool {
	return r.Primary.Reveal() == developmentKey || r.Secondary.Reveal() == developmentKey
}

// DevelopmentKey reports whether any access rule has the emulator's key.
func (s Settings) DevelopmentKey() bool {
	return slices.ContainsFunc(s.Access, AccessRule.IsDevelopment)
}
