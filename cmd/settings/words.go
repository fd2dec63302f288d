package settings

import (
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Word is the name of one setting. It is the same as a flag (--log-level), as an environment
// variable (LEDGERBUS_LOG_LEVEL) and in the file, where a dot means a key inside a block: log.level
// is level: inside log:.
type Word struct {
	Name    string
	Usage   string // one line for the help
	Default string // for people; "" means that there is none
	Shape   Shape
	// Once marks a decision about one start. It is accepted only as a flag: the environment and the
	// file would apply it to every later start.
	Once bool
	// Common marks the settings that people change. The help shows no others.
	Common bool
	// Fixed is the value of a former setting, which is accepted and has no effect; "" for all
	// others.
	Fixed string

	alias  string            // another environment variable with the same meaning
	flat   string            // the key that the file had before there was a block; "" means none
	old    map[string]string // the new spelling of each old spelling of a value
	setter setter
}

// Shape is how many values a word takes.
type Shape uint8

const (
	One Shape = iota // one value
	// a list: flag repeatable, commas in the environment, a sequence in the file
	Many
	Switch // true or false
)

// Flag returns the word as a flag, without the dashes.
func (w Word) Flag() string { return strings.ReplaceAll(w.Name, ".", "-") }

// Variable returns the word as an environment variable.
func (w Word) Variable() string {
	return "LEDGERBUS_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(w.Name))
}

// Takes names the values that the word takes, for people: "size from 64KiB to 1GiB".
func (w Word) Takes() string { return w.setter.takes }

// Words lists every setting that can be given as a flag, and the former ones. Access rules are not
// among them: all users of a machine can see the keys on a command line.
func Words() []Word { return words }

// Old spellings of values.
var never = map[string]string{"never": quantity.FormatDuration(quantity.Unlimited)}

const year = 365 * 24 * time.Hour

var words = []Word{
	{Name: "data", Common: true, Usage: "data directory; created if it does not exist", Default: "data",
		setter: text("directory", func(s *Settings) *string { return &s.Storage.Data })},
	{Name: "listen", Common: true, Shape: Many, Default: developmentAMQP + " and " + developmentHTTP,
		Usage:  "HOST:PORT for AMQP and HTTP; with /tls for TLS only, /plain for no TLS, /any for both; repeatable",
		setter: list("list of HOST:PORT, with or without /tls, /plain or /any", func(s *Settings) *[]string { return &s.Listening.Addresses })},
	{Name: "hosts", Common: true, Shape: Many, Default: "those of --listen",
		Usage:  "host name of this machine, for tokens in production mode and generated certificates; repeatable",
		setter: list("list of names", func(s *Settings) *[]string { return &s.Listening.Hosts })},
	{Name: "entities", Common: true, Usage: "entity file: the emulator's Config.json, or the same in YAML", alias: "CONFIG_PATH",
		setter: text("file", func(s *Settings) *string { return &s.Entities.File })},
	{Name: "queue", Common: true, Shape: Many, Usage: "queue to create if it does not exist, with the service's default properties; repeatable",
		setter: list("list of names", func(s *Settings) *[]string { return &s.Entities.Queues })},
	{Name: "mode", Common: true, Usage: "development or production", Default: string(Development),
		setter: choice(func(s *Settings, name string) { s.Mode = Mode(name) }, string(Development), string(Production))},
	{Name: "tier", Common: true, Usage: "standard or premium: the sizes that clients may ask for when they create entities", Default: string(Standard),
		setter: choice(func(s *Settings, name string) { s.Tier = Tier(name) }, string(Standard), string(Premium))},
	{Name: "partitions", Common: true, Usage: "number of partition logs, 1 to 64; fixed when the data directory is created", Default: "4",
		setter: count(func(s *Settings) *int { return &s.Storage.Partitions }, 1, 64)},
	{Name: "forwarding.failures-to", Usage: "sub-queue for messages that ForwardTo cannot deliver: dead-letter or transfer-dead-letter", Default: "dead-letter",
		setter: choice(setFailuresTo, "dead-letter", "transfer-dead-letter")},
	{Name: "disk.reserve", Usage: "disk space kept for settlements when the disk is full; at most an eighth of the disk", Default: "64MiB",
		setter: size(func(s *Settings) *int { return &s.Storage.Reserve }, quantity.Sizes{Most: 1 << 40, None: true})},
	{Name: "disk.low", Common: true, Usage: "free disk space below which sends are refused as busy", Default: "the smaller of 5 % of the disk and 1GiB",
		setter: size(func(s *Settings) *int { return &s.Storage.Low }, quantity.Sizes{Most: 1 << 50})},
	{Name: "on-io-error", Common: true, Usage: "when a log cannot be written: exit ends the broker, fence stops only its partition", Default: "exit",
		setter: choice(func(s *Settings, name string) { s.Storage.Fence = name == "fence" }, "exit", "fence")},
	{Name: "memory.limit", Common: true, Default: "GOMEMLIMIT, or 90 % of the memory of the control group or the machine",
		Usage:  "memory of the process; when it runs short, new messages and connections are refused as busy",
		setter: size(func(s *Settings) *int64 { return &s.MemoryLimit }, quantity.Sizes{Least: 64 << 20, Most: 1 << 50})},
	{Name: "seal-after", Usage: "time from the end of a chapter of the log until it is compressed; unlimited: never", Default: "10m", old: never,
		setter: period(setSealAfter, quantity.Durations{Most: year, Unlimited: true})},
	{Name: "scrub-every", Usage: "how often the whole log is read again, to find damage early; unlimited: never", Default: "7d", old: never,
		setter: period(setScrubEvery, quantity.Durations{Least: time.Hour, Most: year, Unlimited: true})},
	{Name: "history.events", flat: "history-events", Common: true, Usage: "how long to keep events that no longer affect any message", Default: "7d",
		setter: retention(func(s *Settings) *event.Retention { return &s.History.Policy.Events })},
	{Name: "history.bodies", flat: "history-bodies", Common: true, Default: "1d",
		Usage:  "how long to keep bodies of messages that were completed, received and deleted, expired or cancelled",
		setter: retention(func(s *Settings) *event.Retention { return &s.History.Policy.Bodies })},
	{Name: "history.undo", flat: "history-undo", Common: true, Default: "1d",
		Usage:  "how long to keep messages that were purged, deleted in a batch or deleted with their entity",
		setter: retention(func(s *Settings) *event.Retention { return &s.History.Policy.Undo })},
	{Name: "history.share", flat: "history-share", Common: true, Usage: "percentage of the disk for all history; the oldest is removed first; 100: no limit", Default: "20",
		setter: count(func(s *Settings) *uint32 { return &s.History.Share }, 1, 100)},
	{Name: "history.before-sends", flat: "history-before-sends", Default: "false",
		Usage:  "when the disk is nearly full: true rejects sends and keeps history; false deletes the oldest history first",
		setter: choice(setBeforeSends, "true", "false")},
	{Name: "clock.max-gap", flat: "clock-max-gap", Default: "400d",
		Usage:  "how far the machine's clock may be ahead of the newest event in the log at a start",
		setter: period(func(s *Settings, d time.Duration) { s.Clock.MaxGap = d }, quantity.Durations{Least: time.Hour, Most: 100 * year})},
	{Name: "accept-clock", Once: true, Common: true, Usage: "for one start where the clock is refused: log goes on from the log's time, wall from the clock's",
		setter: choice(setAcceptClock, "log", "wall")},
	{Name: "reason", Once: true, Usage: "why --accept-clock is given, in one line; the log keeps it with the change", setter: setter{"text", setReason}},
	{Name: "log.level", flat: "log-level", Common: true, Usage: "debug, info, warn or error", Default: "info",
		setter: choice(func(s *Settings, name string) { _ = s.Logging.Level.UnmarshalText([]byte(name)) }, "debug", "info", "warn", "error")},
	{Name: "log.format", flat: "log-format", Common: true, Usage: "text or json", Default: "text",
		setter: choice(func(s *Settings, name string) { s.Logging.Format = name }, "text", "json")},
	{Name: "tls", Usage: "origin of the certificate: generated, files, or off for no TLS", Default: "files if they are given, else generated in development mode and off in production mode",
		setter: choice(func(s *Settings, name string) { s.TLS.From = TLSSource(name) }, string(TLSGenerated), string(TLSFiles), string(TLSOff))},
	{Name: "tls.certificate-file", Common: true, Usage: "PEM file with the certificate and the intermediate certificates up to its authority",
		setter: text("file", func(s *Settings) *string { return &s.TLS.CertificateFile })},
	{Name: "tls.key-file", Common: true, Usage: "PEM file with the certificate's key; only its owner may be able to read it",
		setter: text("file", func(s *Settings) *string { return &s.TLS.KeyFile })},
	{Name: "insecure-no-tls", Common: true, Shape: Switch, Usage: "allow addresses other than loopback without TLS",
		setter: toggle(func(s *Settings) *bool { return &s.Listening.InsecureNoTLS })},
	{Name: "insecure-no-auth", Common: true, Shape: Switch, Usage: "allow addresses other than loopback with the emulator's well-known key; development mode only",
		setter: toggle(func(s *Settings) *bool { return &s.Listening.InsecureNoAuth })},
	{Name: "i-accept-the-risk", Shape: Switch, Usage: "with --insecure-no-tls or --insecure-no-auth: allow public addresses as well",
		setter: toggle(func(s *Settings) *bool { return &s.Listening.AcceptRisk })},
	{Name: "jwt.issuer", Common: true, Usage: "URL of an OpenID Connect issuer whose tokens are accepted, in addition to the keys of access rules",
		setter: text("URL", func(s *Settings) *string { return &s.Identity.Issuer })},
	{Name: "jwt.audience", Common: true, Shape: Many, Usage: "audience of the issuer's tokens, such as https://servicebus.azure.net; repeatable: one has to match",
		setter: list("list of texts", func(s *Settings) *[]string { return &s.Identity.Audiences })},
	{Name: "jwt.roles-claim", Usage: "claim of the issuer's tokens that has the roles", Default: "roles",
		setter: text("name of a claim", func(s *Settings) *string { return &s.Identity.RolesClaim })},
	{Name: "accept-any-bearer", Shape: Switch, Usage: "give all rights to anything that looks like a bearer token; development mode only",
		setter: toggle(func(s *Settings) *bool { return &s.Identity.AnyBearer })},

	{Name: "limits.connections", Common: true, Usage: "open connections", Default: "5000",
		setter: count(func(s *Settings) *int { return &s.Limits.Connections }, 1, 1_000_000)},
	{Name: "limits.unauthenticated", Usage: "connections that have not shown a valid token yet", Default: "1000",
		setter: count(func(s *Settings) *int { return &s.Limits.Unauthenticated }, 1, 1000)},
	{Name: "limits.locked", Usage: "messages locked through one connection", Default: "50000",
		setter: count(func(s *Settings) *int { return &s.Limits.Locked }, 1, 10_000_000)},
	{Name: "limits.buffered-in", Usage: "unanswered sends of a connection", Default: "32MiB",
		setter: size(func(s *Settings) *int { return &s.Limits.BufferedIn }, quantity.Sizes{Least: 64 << 10, Most: 1 << 30})},
	{Name: "limits.buffered-out", Usage: "data that waits to be written to a connection", Default: "8MiB",
		setter: size(func(s *Settings) *int { return &s.Limits.BufferedOut }, quantity.Sizes{Least: 64 << 10, Most: 1 << 30})},
	{Name: "limits.transactions", Usage: "open transactions of a connection", Default: "2000",
		setter: count(func(s *Settings) *int { return &s.Limits.Transactions }, 1, 50_000)},
	{Name: "limits.all-transactions", Usage: "open transactions of all connections", Default: "20000",
		setter: count(func(s *Settings) *int { return &s.Limits.AllTransactions }, 1, 65_000)},
	{Name: "limits.transaction-bytes", Usage: "data staged in the transactions of a connection", Default: "64MiB",
		setter: size(func(s *Settings) *int { return &s.Limits.TransactionBytes }, quantity.Sizes{Least: 64 << 10, Most: 1 << 30})},
	{Name: "limits.all-transaction-bytes", Usage: "data staged in the transactions of all connections", Default: "256MiB",
		setter: size(func(s *Settings) *int { return &s.Limits.AllTransactionBytes }, quantity.Sizes{Least: 64 << 10, Most: 16 << 30})},
	{Name: "limits.partitioned", Usage: "partitioned queues and topics in the namespace", Default: "100",
		setter: count(func(s *Settings) *int { return &s.Limits.Partitioned }, 1, 10_000)},
	{Name: "limits.idle-timeout", Usage: "silence after which a connection is closed", Default: "4m",
		setter: period(func(s *Settings, d time.Duration) { s.Limits.IdleTimeout = d }, quantity.Durations{Least: 5 * time.Second, Most: time.Hour})},
	{Name: "limits.link-idle", Usage: "time without activity after which a link is detached", Default: "10m",
		setter: period(func(s *Settings, d time.Duration) { s.Limits.LinkIdle = d }, quantity.Durations{Least: time.Second, Most: 24 * time.Hour})},
	{Name: "limits.no-links", Usage: "time after which a connection without links is closed", Default: "5m",
		setter: period(func(s *Settings, d time.Duration) { s.Limits.NoLinks = d }, quantity.Durations{Least: time.Second, Most: 24 * time.Hour})},

	// former settings: only tests changed them
	{Name: "limits.connections-per-address", Fixed: "100"},
	{Name: "limits.sessions", Fixed: "5000"},
	{Name: "limits.links", Fixed: "20000"},
	{Name: "limits.max-frame-size", Fixed: "64KiB"},
}
