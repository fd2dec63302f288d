package client

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// DevelopmentConnectionString is the emulator's connection string, which a broker in development
// mode accepts.
const DevelopmentConnectionString = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"

const maxConnectionString = 8 << 10

// A ConnectionString is the address of a namespace and the credentials for it (1.3). It prints
// without its key.
type ConnectionString struct {
	Host       string // without port
	Port       int    // 0: 5672 for an emulator, else 5671
	Emulator   bool   // no TLS
	EntityPath string // "": any
	KeyName    string // "" with a ready-made signature

	key       string
	signature string
}

// WithKey returns the connection string with the name and key of another access rule, which sign
// tokens.
func (cs ConnectionString) WithKey(name, key string) ConnectionString {
	cs.KeyName, cs.key, cs.signature = name, key, ""
	return cs
}

// ParseConnectionString parses a connection string. Keys are case-insensitive and unknown keys are
// ignored, as in most SDKs. Errors name the wrong key and never contain a value.
func ParseConnectionString(s string) (ConnectionString, error) {
	var cs ConnectionString
	if len(s) > maxConnectionString {
		return cs, fmt.Errorf("connection string: longer than %d bytes", maxConnectionString)
	}
	endpoint := ""
	for part := range strings.SplitSeq(s, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=") // the first =, because a key may end with =
		if !ok {
			return cs, errors.New("connection string: every part must be Key=Value")
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "endpoint":
			endpoint = value
		case "sharedaccesskeyname":
			cs.KeyName = value
		case "sharedaccesskey":
			cs.key = value
		case "sharedaccesssignature":
			cs.signature = value
		case "entitypath":
			cs.EntityPath = strings.Trim(value, "/")
		case "usedevelopmentemulator":
			v, err := strconv.ParseBool(value)
			if err != nil {
				return cs, errors.New("connection string: UseDevelopmentEmulator must be true or false")
			}
			cs.Emulator = v
		}
	}
	if endpoint == "" {
		return cs, errors.New("connection string: Endpoint=sb://HOST is missing")
	}
	if err := cs.endpoint(endpoint); err != nil {
		return cs, err
	}
	switch {
	case cs.signature != "" && (cs.key != "" || cs.KeyName != ""):
		return cs, errors.New("connection string: SharedAccessSignature cannot be used with SharedAccessKeyName or SharedAccessKey")
	case cs.signature == "" && (cs.key == "" || cs.KeyName == ""):
		return cs, errors.New("connection string: SharedAccessKeyName or SharedAccessKey is missing")
	}
	return cs, nil
}

func (cs *ConnectionString) endpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") {
		return errors.New("connection string: Endpoint must be sb://HOST or sb://HOST:PORT")
	}
	switch strings.ToLower(u.Scheme) {
	case "sb", "amqp", "amqps":
	default:
		return errors.New("connection string: Endpoint must begin with sb://")
	}
	cs.Host = u.Hostname()
	if _, err := netip.ParseAddr(cs.Host); err != nil && strings.ContainsFunc(cs.Host, notInHost) {
		return errors.New("connection string: Endpoint must be sb://HOST or sb://HOST:PORT")
	}
	if u.Port() != "" {
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || port == 0 {
			return errors.New("connection string: the port of Endpoint must be a number from 1 to 65535")
		}
		cs.Port = int(port)
	}
	return nil
}

// notInHost reports whether a character is invalid in a host name.
func notInHost(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`:;/\@?#[]%"<>`, r)
}

// Address returns the host:port to connect to.
func (cs ConnectionString) Address() string {
	port := cs.Port
	if port == 0 {
		port = 5671
		if cs.Emulator {
			port = 5672
		}
	}
	return net.JoinHostPort(cs.Host, strconv.Itoa(port))
}

// authority returns the host as used in audiences, with its port if one was given (2.4).
func (cs ConnectionString) authority() string {
	if cs.Port != 0 {
		return net.JoinHostPort(cs.Host, strconv.Itoa(cs.Port))
	}
	if strings.Contains(cs.Host, ":") {
		return "[" + cs.Host + "]"
	}
	return cs.Host
}

// String returns the connection string with *** instead of its secret.
func (cs ConnectionString) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Endpoint=sb://%s", cs.authority())
	if cs.signature != "" {
		b.WriteString(";SharedAccessSignature=***")
	} else {
		fmt.Fprintf(&b, ";SharedAccessKeyName=%s;SharedAccessKey=***", cs.KeyName)
	}
	if cs.EntityPath != "" {
		fmt.Fprintf(&b, ";EntityPath=%s", cs.EntityPath)
	}
	if cs.Emulator {
		b.WriteString(";UseDevelopmentEmulator=true")
	}
	return b.String()
}

// Format implements [fmt.Formatter], so that no verb prints the key.
func (cs ConnectionString) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, cs.String()) }

// LogValue implements [slog.LogValuer].
func (cs ConnectionString) LogValue() slog.Value { return slog.StringValue(cs.String()) }
