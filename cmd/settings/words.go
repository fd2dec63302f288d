package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Word is the name of one setting, the same as a flag (--log-level), an environment variable
// (LEDGERBUS_LOG_LEVEL) and a key of the file (log-level: or, with a dot in it, a key inside a
// block: limits.links is links: inside limits:).
type Word struct {
	Name    string
	Usage   string
	Default string // for people, "" when there is none
	Shape   Shape
	// Once is a decision about one start: it is taken as a flag alone, for in the environment or a
	// file it would be in force at every start to come.
	Once bool

	alias string // another environment variable with the same meaning
	set   func(s *Settings, values []string) error
}

// Shape is how many values a word takes.
type Shape uint8

const (
	One Shape = iota // one value
	// a list: flag repeatable, commas in the environment, a sequence in the file
	Many
	Switch // true or false
)

// Flag is the word as a flag, without the dashes.
func (w Word) Flag() string { return strings.ReplaceAll(w.Name, ".", "-") }

// Variable is the word as an environment variable.
func (w Word) Variable() string {
	return "LEDGERBUS_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(w.Name))
}

// Words lists every setting that may be given as a flag. Access rules are not among them: a key on
// a command line is seen by everyone on the machine.
func Words() []Word { return words }

var words = []Word{
	{Name: "data", Usage: "data directory; created if it does not exist", Default: "data",
		set: text(func(s *Settings) *string { return &s.Storage.Data })},
	{Name: "listen", Shape: Many, Usage: "HOST:PORT to listen on for AMQP and HTTP; add /tls to it for TLS only, /plain for no TLS, /any for both; repeatable", Default: developmentAMQP + " and " + developmentHTTP,
		set: list(func(s *Settings) *[]string { return &s.Listening.Addresses })},
	{Name: "hosts", Shape: Many, Usage: "host name by which clients know this machine, for tokens in production mode and for a generated certificate; repeatable", Default: "those of --listen",
		set: list(func(s *Settings) *[]string { return &s.Listening.Hosts })},
	{Name: "entities", Usage: "entity file: the emulator's Config.json, or the same in YAML; an unknown key in it is an error", alias: "CONFIG_PATH",
		set: text(func(s *Settings) *string { return &s.Entities.File })},
	{Name: "queue", Shape: Many, Usage: "queue to create if it does not exist, with the cloud's default properties; repeatable",
		set: list(func(s *Settings) *[]string { return &s.Entities.Queues })},
	{Name: "mode", Usage: "development or production", Default: string(Development), set: setMode},
	{Name: "tier", Usage: "standard or premium: decides which sizes clients may ask for when they create entities", Default: string(Standard), set: setTier},
	{Name: "partitions", Usage: "number of partition logs, 1 to 64; fixed when the data directory is made", Default: "4",
		set: count(func(s *Settings) *int { return &s.Storage.Partitions }, 1, 64)},
	{Name: "forwarding.failures-to", Usage: "where an entity with ForwardTo puts messages that cannot be forwarded: dead-letter, as in the cloud today, or transfer-dead-letter, as older documentation says",
		Default: "dead-letter", set: setFailuresTo},
	{Name: "disk.reserve", Usage: "bytes of disk kept free so that messages can still be settled when the disk is full; at most an eighth of the disk", Default: "67108864",
		set: count(func(s *Settings) *int { return &s.Storage.Reserve }, 0, 1<<40)},
	{Name: "disk.low", Usage: "with fewer free bytes on the disk than this, sends are refused as busy", Default: "the smaller of 5 % of the disk and 1 GiB",
		set: count(func(s *Settings) *int { return &s.Storage.Low }, 0, 1<<50)},
	{Name: "on-io-error", Usage: "what happens when a partition's log cannot be written: exit ends the broker, with exit code 5; fence takes the partition out of service until somebody restarts it (ledgerbus partition restart), while the others go on",
		Default: "exit", set: setOnIOError},
	{Name: "memory.limit", Usage: "bytes of memory that the process may use; when they run short, new messages and connections are refused as busy", Default: "GOMEMLIMIT, or 90 % of the memory of the control group or the machine",
		set: func(s *Settings, values []string) error {
			var limit int
			err := count(func(*Settings) *int { return &limit }, 64<<20, 1<<50)(s, values)
			s.MemoryLimit = int64(limit)
			return err
		}},
	{Name: "seal-after", Usage: "how long after its end a chapter of the log becomes a sealed file, compressed and indexed: a time such as 10m, 0s for at once, or never. Older versions of the broker cannot open sealed files",
		Default: "10m", set: setSealAfter},
	{Name: "scrub-every", Usage: "how often the running broker reads its whole log again and compares the checksums, so that damage is found before the data is needed: a time such as 7d or 36h, or never",
		Default: "7d", set: setScrubEvery},
	{Name: "history-events", Usage: "how long to keep events that no longer affect any message: a time such as 7d or 36h, none or unlimited. Like the other history settings, the value is stored in the log, and a later start without the setting keeps it", Default: "7d",
		set: retention(func(s *Settings) *event.Retention { return &s.History.Policy.Events })},
	{Name: "history-bodies", Usage: "how long to keep bodies of messages that were completed, received and deleted, expired or cancelled: a time, none or unlimited", Default: "24h",
		set: retention(func(s *Settings) *event.Retention { return &s.History.Policy.Bodies })},
	{Name: "history-undo", Usage: "how long to keep messages that were purged, deleted in a batch or deleted with their entity: a time, none or unlimited", Default: "24h",
		set: retention(func(s *Settings) *event.Retention { return &s.History.Policy.Undo })},
	{Name: "history-share", Usage: "percentage of the disk that all history may take, 1 to 100; what exceeds it is removed, oldest first, whatever the other settings say; 100: no bound", Default: "20",
		set: setHistoryShare},
	{Name: "history-before-sends", Usage: "what gives way when the disk runs short of room: sends, which are refused (true), or history, which is cut (false)", Default: "false",
		set: setHistoryBeforeSends},
	{Name: "clock-max-gap", Usage: "how far the machine's clock may be ahead of the newest event in the log at a start; a longer gap is refused, not taken for downtime",
		Default: "9600h, which is 400 days", set: period(func(s *Settings) *time.Duration { return &s.Clock.MaxGap }, time.Hour, 876000*time.Hour)},
	{Name: "accept-clock", Once: true, Usage: "how to start when the clock is refused, or is over 10 minutes from the newest event in the log: log goes on from that event; wall sets broker time to the clock and moves all deadlines by the difference; as a flag only",
		set: setAcceptClock},
	{Name: "reason", Once: true, Usage: "why --accept-clock is given, in one line; kept in the log beside the change; as a flag only", set: setReason},
	{Name: "log-level", Usage: "debug, info, warn or error", Default: "info", set: setLevel},
	{Name: "log-format", Usage: "text or json", Default: "text", set: setFormat},
	{Name: "tls", Usage: "generated (signed by a development authority that the broker makes in the data directory), files or off", Default: "files if they are given, else generated in development mode and off in production mode",
		set: setTLS},
	{Name: "tls.certificate-file", Usage: "PEM file with the certificate and the intermediate certificates up to its authority",
		set: text(func(s *Settings) *string { return &s.TLS.CertificateFile })},
	{Name: "tls.key-file", Usage: "PEM file with the certificate's key; only its owner may read it",
		set: text(func(s *Settings) *string { return &s.TLS.KeyFile })},
	{Name: "insecure-no-tls", Shape: Switch, Usage: "allow addresses other than loopback to be used without TLS",
		set: toggle(func(s *Settings) *bool { return &s.Listening.InsecureNoTLS })},
	{Name: "insecure-no-auth", Shape: Switch, Usage: "allow addresses other than loopback to be used with the emulator's key, which everybody knows; development mode only",
		set: toggle(func(s *Settings) *bool { return &s.Listening.InsecureNoAuth })},
	{Name: "i-accept-the-risk", Shape: Switch, Usage: "with --insecure-no-tls or --insecure-no-auth: allow public addresses as well",
		set: toggle(func(s *Settings) *bool { return &s.Listening.AcceptRisk })},
	{Name: "jwt.issuer", Usage: "URL of an OpenID Connect issuer whose tokens are accepted, in addition to those signed with the keys of access rules",
		set: text(func(s *Settings) *string { return &s.Identity.Issuer })},
	{Name: "jwt.audience", Shape: Many, Usage: "audience that the issuer's tokens must be for, such as https://servicebus.azure.net; repeatable: a token needs one of them",
		set: list(func(s *Settings) *[]string { return &s.Identity.Audiences })},
	{Name: "jwt.roles-claim", Usage: "claim of the issuer's tokens that holds the roles: Manage, Send, Listen, ReadHistory, ReadBodies, or Azure Service Bus Data Owner, Sender, Receiver", Default: "roles",
		set: text(func(s *Settings) *string { return &s.Identity.RolesClaim })},
	{Name: "accept-any-bearer", Shape: Switch, Usage: "give all rights to anything that looks like a bearer token; development mode only",
		set: toggle(func(s *Settings) *bool { return &s.Identity.AnyBearer })},
	{Name: "limits.connections", Usage: "open connections", Default: "5000",
		set: count(func(s *Settings) *int { return &s.Limits.Connections }, 1, 1_000_000)},
	{Name: "limits.connections-per-address", Usage: "connections from one address that have not shown a valid token yet", Default: "100",
		set: count(func(s *Settings) *int { return &s.Limits.ConnectionsPerAddress }, 1, 100)},
	{Name: "limits.unauthenticated", Usage: "all connections that have not shown a valid token yet", Default: "1000",
		set: count(func(s *Settings) *int { return &s.Limits.Unauthenticated }, 1, 1000)},
	{Name: "limits.sessions", Usage: "AMQP sessions per connection", Default: "5000",
		set: count(func(s *Settings) *int { return &s.Limits.Sessions }, 1, 5000)},
	{Name: "limits.links", Usage: "links per connection", Default: "20000",
		set: count(func(s *Settings) *int { return &s.Limits.Links }, 1, 1_000_000)},
	{Name: "limits.locked", Usage: "messages locked through one connection", Default: "50000",
		set: count(func(s *Settings) *int { return &s.Limits.Locked }, 1, 10_000_000)},
	{Name: "limits.max-frame-size", Usage: "bytes of an AMQP frame", Default: "65536",
		set: count(func(s *Settings) *int { return &s.Limits.MaxFrameSize }, 512, 16<<20)},
	{Name: "limits.buffered-in", Usage: "bytes that a connection has sent and the log has not taken yet", Default: "33554432",
		set: count(func(s *Settings) *int { return &s.Limits.BufferedIn }, 64<<10, 1<<30)},
	{Name: "limits.buffered-out", Usage: "bytes waiting to be written to a connection", Default: "8388608",
		set: count(func(s *Settings) *int { return &s.Limits.BufferedOut }, 64<<10, 1<<30)},
	{Name: "limits.transactions", Usage: "open transactions of a connection", Default: "2000",
		set: count(func(s *Settings) *int { return &s.Limits.Transactions }, 1, 50_000)},
	{Name: "limits.all-transactions", Usage: "open transactions of all connections", Default: "20000",
		set: count(func(s *Settings) *int { return &s.Limits.AllTransactions }, 1, 65_000)},
	{Name: "limits.transaction-bytes", Usage: "bytes staged in the transactions of a connection", Default: "67108864",
		set: count(func(s *Settings) *int { return &s.Limits.TransactionBytes }, 64<<10, 1<<30)},
	{Name: "limits.all-transaction-bytes", Usage: "bytes staged in the transactions of all connections", Default: "268435456",
		set: count(func(s *Settings) *int { return &s.Limits.AllTransactionBytes }, 64<<10, 16<<30)},
	{Name: "limits.partitioned", Usage: "partitioned queues and topics in the namespace", Default: "100",
		set: count(func(s *Settings) *int { return &s.Limits.Partitioned }, 1, 10_000)},
	{Name: "limits.idle-timeout", Usage: "silence after which a connection is closed; clients are told half of it", Default: "240s",
		set: period(func(s *Settings) *time.Duration { return &s.Limits.IdleTimeout }, 5*time.Second, time.Hour)},
	{Name: "limits.link-idle", Usage: "time without activity after which a link is detached", Default: "10m",
		set: period(func(s *Settings) *time.Duration { return &s.Limits.LinkIdle }, time.Second, 24*time.Hour)},
	{Name: "limits.no-links", Usage: "time after which a connection that no longer has links is closed", Default: "5m",
		set: period(func(s *Settings) *time.Duration { return &s.Limits.NoLinks }, time.Second, 24*time.Hour)},
}

func text(field func(*Settings) *string) func(*Settings, []string) error {
	return func(s *Settings, values []string) error {
		if values[0] == "" {
			return errors.New("must not be empty")
		}
		*field(s) = values[0]
		return nil
	}
}

func list(field func(*Settings) *[]string) func(*Settings, []string) error {
	return func(s *Settings, values []string) error {
		*field(s) = values
		return nil
	}
}

func toggle(field func(*Settings) *bool) func(*Settings, []string) error {
	return func(s *Settings, values []string) error {
		v, err := strconv.ParseBool(values[0])
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", values[0])
		}
		*field(s) = v
		return nil
	}
}

func count(field func(*Settings) *int, least, most int) func(*Settings, []string) error {
	return func(s *Settings, values []string) error {
		v, err := strconv.Atoi(values[0])
		if err != nil || v < least || v > most {
			return fmt.Errorf("%q is not a whole number from %d to %d", values[0], least, most)
		}
		*field(s) = v
		return nil
	}
}

func period(field func(*Settings) *time.Duration, least, most time.Duration) func(*Settings, []string) error {
	return func(s *Settings, values []string) error {
		v, err := time.ParseDuration(values[0])
		if err != nil || v < least || v > most {
			return fmt.Errorf("%q is not a duration from %s to %s, such as 90s", values[0], least, most)
		}
		*field(s) = v
		return nil
	}
}

func setMode(s *Settings, values []string) error {
	switch s.Mode = Mode(values[0]); s.Mode {
	case Development, Production:
		return nil
	}
	return fmt.Errorf("%q is neither %s nor %s", values[0], Development, Production)
}

func setTier(s *Settings, values []string) error {
	switch s.Tier = Tier(values[0]); s.Tier {
	case Standard, Premium:
		return nil
	}
	return fmt.Errorf("%q is neither %s nor %s", values[0], Standard, Premium)
}

func setFailuresTo(s *Settings, values []string) error {
	switch values[0] {
	case "dead-letter":
		s.FailuresTo = event.DeadLetter
	case "transfer-dead-letter":
		s.FailuresTo = event.TransferDeadLetter
	default:
		return fmt.Errorf("%q is neither dead-letter nor transfer-dead-letter", values[0])
	}
	return nil
}

func setSealAfter(s *Settings, values []string) error {
	if values[0] == "never" {
		s.Storage.SealAfter = 0
		return nil
	}
	d, err := time.ParseDuration(values[0])
	if err != nil || d < 0 || d > maxSealAfter {
		return fmt.Errorf("%q is neither a duration from 0s to %s nor never", values[0], maxSealAfter)
	}
	if s.Storage.SealAfter = d; d == 0 {
		s.Storage.SealAfter = -1
	}
	return nil
}

// How often a log may be scrubbed.
const leastScrubEvery, mostScrubEvery = time.Hour, 8760 * time.Hour

func setScrubEvery(s *Settings, values []string) error {
	if values[0] == "never" {
		s.Storage.ScrubEvery = 0
		return nil
	}
	text := values[0]
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 365 {
			text = fmt.Sprint(24*n, "h")
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < leastScrubEvery || d > mostScrubEvery {
		return fmt.Errorf("%q is neither a duration from 1h to 365d nor never", values[0])
	}
	s.Storage.ScrubEvery = d
	return nil
}

func retention(field func(*Settings) *event.Retention) func(*Settings, []string) error {
	return func(s *Settings, values []string) (err error) {
		*field(s), err = event.ParseRetention(values[0])
		return err
	}
}

func setHistoryShare(s *Settings, values []string) error {
	var share int
	err := count(func(*Settings) *int { return &share }, 1, 100)(s, values)
	s.History.Share = uint32(share)
	return err
}

func setHistoryBeforeSends(s *Settings, values []string) error {
	switch values[0] {
	case "true":
		s.History.BeforeSends = engine.BeforeSendsYes
	case "false":
		s.History.BeforeSends = engine.BeforeSendsNo
	default:
		return fmt.Errorf("%q is neither true nor false", values[0])
	}
	return nil
}

// maxSealAfter is the longest time after which chapters are sealed.
const maxSealAfter = 8760 * time.Hour

func setOnIOError(s *Settings, values []string) error {
	switch values[0] {
	case "exit":
		s.Storage.Fence = false
	case "fence":
		s.Storage.Fence = true
	default:
		return fmt.Errorf("%q is neither exit nor fence", values[0])
	}
	return nil
}

func setTLS(s *Settings, values []string) error {
	switch s.TLS.From = TLSSource(values[0]); s.TLS.From {
	case TLSGenerated, TLSFiles, TLSOff:
		return nil
	}
	return fmt.Errorf("%q is not one of %s, %s, %s", values[0], TLSGenerated, TLSFiles, TLSOff)
}

func setLevel(s *Settings, values []string) error {
	switch values[0] {
	case "debug", "info", "warn", "error":
		return s.Logging.Level.UnmarshalText([]byte(values[0]))
	}
	return fmt.Errorf("%q is not one of debug, info, warn, error", values[0])
}

func setFormat(s *Settings, values []string) error {
	if s.Logging.Format = values[0]; values[0] != "text" && values[0] != "json" {
		return fmt.Errorf("%q is neither text nor json", values[0])
	}
	return nil
}

func setReason(s *Settings, values []string) error {
	if err := engine.CheckReason(values[0]); err != nil {
		return errors.New(err.Text)
	}
	s.Clock.Reason = values[0]
	return nil
}

func setAcceptClock(s *Settings, values []string) error {
	switch values[0] {
	case "log":
		s.Clock.Accept = host.AcceptLog
	case "wall":
		s.Clock.Accept = host.AcceptWall
	default:
		return fmt.Errorf("%q is neither log nor wall", values[0])
	}
	return nil
}
