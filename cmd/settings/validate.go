package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// finish sets the defaults that depend on the mode, makes the checks that need more than one value,
// and reads the entities.
func (l *loader) finish() {
	s := &l.settings
	l.addresses()
	if s.Access == nil && s.Mode == Development {
		s.Access = []AccessRule{{Name: developmentRule, Rights: []Right{Manage, Send, Listen}, Primary: NewSecret(developmentKey)}}
	}
	l.checkAccess()
	l.checkIdentity()
	l.checkTLS()
	l.checkListening()
	l.checkEntities()
	if s.Clock.Reason != "" && s.Clock.Accept == host.AcceptNone {
		l.problems.add("", "--reason: needs --accept-clock")
	}
}

// addresses sets the addresses of the listeners.
func (l *loader) addresses() {
	s := &l.settings
	if s.Listening.Addresses == nil {
		s.Listening.Addresses = []string{developmentAMQP}
		if s.Mode == Development {
			s.Listening.Addresses = append(s.Listening.Addresses, developmentHTTP)
		}
	}
	l.moveHTTPPort()
}

func (l *loader) checkAccess() {
	s := &l.settings
	where := l.origin[accessRules]
	if s.Mode == Production {
		if len(s.Access) == 0 && where == "" {
			l.problems.add("", "%s: production mode needs at least one rule with a new key, in the config file (ledgerbus init makes one) or in %s",
				accessRules, Word{Name: accessRules}.Variable())
		}
		if s.DevelopmentKey() {
			l.problems.add(where, "%s: the emulator's well-known key is for development mode only; ledgerbus init makes a file with a key of your own", accessRules)
		}
	}
	if where != "" && len(s.Access) == 0 {
		l.problems.add(where, "%s: must not be empty", accessRules)
	}
	if len(s.Access) > 12 {
		l.problems.add(where, "%s: at most 12 rules", accessRules)
	}
	names := map[string]bool{}
	for _, rule := range s.Access {
		if name := strings.ToLower(rule.Name); names[name] && name != "" {
			l.problems.add(where, "%s: two rules are named %q", accessRules, rule.Name)
		} else {
			names[name] = true
		}
	}
}

// checkIdentity checks the settings of identity tokens (reliability.md S4, S5; management-api.md
// 1.7, 5.5).
func (l *loader) checkIdentity() {
	s := &l.settings
	id := &s.Identity
	for _, word := range []string{"jwt.audience", "jwt.roles-claim"} {
		if where, ok := l.origin[word]; ok && id.Issuer == "" {
			l.problems.add(where, "%s is given without jwt.issuer", word)
		}
	}
	if id.Issuer != "" {
		where := l.origin["jwt.issuer"]
		u, err := url.Parse(id.Issuer)
		switch {
		case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
			l.problems.add(where, "must be a URL such as https://login.example/tenant")
		case u.Scheme == "http" && (s.Mode == Production || reachOf(u.Hostname()) != loopback):
			l.problems.add(where, "must be an https URL: an attacker who changes the answers of an http one can sign tokens")
		}
		if len(id.Audiences) == 0 || slices.Contains(id.Audiences, "") {
			l.problems.add(cmp.Or(l.origin["jwt.audience"], where), "jwt.issuer needs at least one jwt.audience, else tokens made for other services would be accepted")
		}
	}
	if id.AnyBearer {
		where := l.origin["accept-any-bearer"]
		if s.Mode == Production {
			l.problems.add(where, "accept-any-bearer is for development mode only")
		}
		if id.Issuer != "" {
			l.problems.add(where, "accept-any-bearer is given together with jwt.issuer: tokens of any issuer would be accepted")
		}
	}
	if s.Listening.InsecureNoAuth && s.Mode == Production {
		l.problems.add(l.origin["insecure-no-auth"], "insecure-no-auth is for development mode only")
	}
}

// checkTLS sets the origin of the certificate.
func (l *loader) checkTLS() {
	t := &l.settings.TLS
	given := ""
	for _, word := range []string{"tls.certificate-file", "tls.key-file"} {
		if where, ok := l.origin[word]; ok && given == "" {
			given = where
		}
	}
	switch {
	case t.From == "" && given != "":
		t.From = TLSFiles
	case t.From == "" && l.settings.Mode == Development:
		t.From = TLSGenerated
	case t.From == "":
		t.From = TLSOff
	}
	where := l.origin["tls"]
	switch t.From {
	case TLSFiles:
		if t.CertificateFile == "" || t.KeyFile == "" {
			l.problems.add(cmp.Or(where, given), "both tls.certificate-file and tls.key-file are needed")
			return
		}
		if err := CheckPrivate(t.KeyFile); err != nil {
			l.problems.add(l.origin["tls.key-file"], "%v", err)
		}
	case TLSGenerated:
		if l.settings.Mode == Production {
			l.problems.add(where, "generated certificates are for development mode; give tls.certificate-file and tls.key-file")
		}
	}
	if t.From != TLSFiles && given != "" {
		l.problems.add(where, "%s is given together with a file (%s)", t.From, given)
	}
}

// checkListening checks S1 and S2 of reliability.md 7.1: only loopback is served without TLS and
// without an operator's own key, unless a switch allows more.
func (l *loader) checkListening() {
	s := &l.settings
	where := l.origin["listen"]
	if where == "" {
		where = "listen"
	}
	if len(s.Listening.Addresses) == 0 {
		l.problems.add(where, "needs at least one HOST:PORT")
	}
	seen := map[string]bool{}
	for _, entry := range s.Listening.Addresses {
		address, mode, err := s.Listener(entry)
		if err != nil {
			l.problems.add(where, "%q: %v", entry, err)
			continue
		}
		if seen[address] && !strings.HasSuffix(address, ":0") {
			l.problems.add(where, "%q is listed twice", address)
		}
		seen[address] = true
		if mode == ListenTLS && s.TLS.From == TLSOff {
			l.problems.add(where, "%q needs a certificate: give tls.certificate-file and tls.key-file", entry)
			continue
		}
		host, _, _ := net.SplitHostPort(address) // checked by Listener
		l.checkReach(where, address, mode, reachOf(host))
	}
}

// checkReach checks an address that others can reach for TLS, and for keys that are public
// knowledge.
func (l *loader) checkReach(where, address string, mode ListenMode, who reach) {
	s := &l.settings
	if who == loopback {
		return
	}
	if mode != ListenTLS {
		switch {
		case !s.Listening.InsecureNoTLS && s.TLS.From == TLSOff:
			l.problems.add(where, "%q can be reached from other machines without TLS: give tls.certificate-file and tls.key-file, "+
				"listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted", address)
		case !s.Listening.InsecureNoTLS:
			l.problems.add(where, "%q can be reached from other machines without TLS: write %s/%s, "+
				"listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted", address, address, ListenTLS)
		case who == public && !s.Listening.AcceptRisk:
			l.problems.add(where, "%q may be reached from the internet without TLS: add --i-accept-the-risk if that is meant", address)
		}
	}
	if !s.OpenToAll() {
		return
	}
	why, remedy := "the emulator's key is public knowledge", "give "+accessRules+" with a key of your own"
	if s.Identity.AnyBearer {
		why, remedy = "any bearer token is accepted", "leave accept-any-bearer out"
	}
	switch {
	case !s.Listening.InsecureNoAuth:
		l.problems.add(where, "%q can be reached from other machines and %s: "+
			"listen on 127.0.0.1, %s, or add --insecure-no-auth when the network is trusted", address, why, remedy)
	case who == public && !s.Listening.AcceptRisk:
		l.problems.add(where, "%q may be reached from the internet and %s: add --i-accept-the-risk if that is meant", address, why)
	}
}

// Listener splits one of the addresses into the address to bind and the connections to take there.
// Without a slash and a mode, loopback takes all connections in development mode, and other
// addresses take only TLS if there is a certificate; --insecure-no-tls opens them.
func (s *Settings) Listener(entry string) (address string, mode ListenMode, err error) {
	address, name, chosen := strings.Cut(entry, "/")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", errors.New("must be HOST:PORT")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", errors.New("the port must be a number from 0 to 65535")
	}
	if chosen {
		switch mode = ListenMode(name); mode {
		case ListenAny, ListenTLS, ListenPlain:
			return address, mode, nil
		}
		return "", "", fmt.Errorf("after the slash there must be %s, %s or %s", ListenAny, ListenTLS, ListenPlain)
	}
	switch {
	case s.TLS.From == TLSOff || s.TLS.From == "":
		return address, ListenPlain, nil
	case s.Mode == Development && reachOf(host) == loopback, s.Listening.InsecureNoTLS:
		return address, ListenAny, nil
	}
	return address, ListenTLS, nil
}

// reach is the part of the network that can connect to a listener.
type reach uint8

const (
	loopback reach = iota
	private
	public
)

// reachOf returns the reach of a listener by its host. Names other than localhost and the wildcard
// addresses count as public, because they may be.
func reachOf(host string) reach {
	if strings.EqualFold(host, "localhost") {
		return loopback
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return public
	case ip.Unmap().IsLoopback():
		return loopback
	case ip.Unmap().IsPrivate() || ip.Unmap().IsLinkLocalUnicast():
		return private
	}
	return public
}

// checkEntities reads the entity file and adds the queues of --queue. The file's description of a
// queue wins.
func (l *loader) checkEntities() {
	s := &l.settings
	s.Entities.where, s.Entities.given = map[string]string{}, map[string]uint32{}
	file, err := l.entityFile()
	if problems := (Problems)(nil); errors.As(err, &problems) {
		l.problems = append(l.problems, problems...)
	} else if file != nil {
		s.Entities.Put, s.Entities.where, s.Entities.Ignored, s.Entities.Used = file.put, file.where, file.ignored, file.used
		maps.Copy(s.Entities.given, file.given)
	}
	for _, name := range s.Entities.Queues {
		path, err := cleanPath(event.Queue, name)
		if err != nil {
			l.problems.add(l.origin["queue"], "%s", oneLine(err.Text))
			continue
		}
		i := slices.IndexFunc(s.Entities.Put, func(e engine.PutEntity) bool { return strings.EqualFold(e.Path, path) })
		switch {
		case i >= 0 && s.Entities.Put[i].Kind != event.Queue:
			l.problems.add(l.origin["queue"], "%q is a topic: %s", path, s.Entities.where[strings.ToLower(path)])
		case i < 0:
			s.Entities.where[strings.ToLower(path)] = l.origin["queue"]
			s.Entities.given[strings.ToLower(path)] = 0 // an existing one keeps its properties
			s.Entities.Put = append(s.Entities.Put, engine.PutEntity{Kind: event.Queue, Path: path, Properties: engine.DefaultProperties(event.Queue)})
		}
	}
}
