package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
)

// finish fills in what depends on the mode, checks everything that needs more than one value, and reads the entities.
func (l *loader) finish() {
	s := &l.settings
	if s.Listening.Addresses == nil {
		s.Listening.Addresses = []string{developmentAMQP}
		if s.Mode == Development {
			s.Listening.Addresses = append(s.Listening.Addresses, developmentHTTP)
		}
	}
	if s.Access == nil && s.Mode == Development {
		s.Access = []AccessRule{{Name: developmentRule, Rights: []Right{Manage, Send, Listen}, Primary: NewSecret(developmentKey)}}
	}
	l.checkAccess()
	l.checkTLS()
	l.checkListening()
	l.checkEntities()
}

func (l *loader) checkAccess() {
	s := &l.settings
	where := l.origin[accessRules]
	if s.Mode == Production {
		if len(s.Access) == 0 && where == "" {
			l.problems.add("", "%s: production mode needs at least one rule with a key of its own, in the config file or in %s",
				accessRules, Word{Name: accessRules}.Variable())
		}
		if s.DevelopmentKey() {
			l.problems.add(where, "%s: the emulator's well-known key is for development mode only; make one with: openssl rand -base64 32", accessRules)
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
		if names[rule.Name] && rule.Name != "" {
			l.problems.add(where, "%s: two rules are named %q", accessRules, rule.Name)
		}
		names[rule.Name] = true
	}
}

// checkTLS decides where the certificate is from.
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
			l.problems.add(cmp.Or(where, given), "tls.certificate-file and tls.key-file are needed, both")
			return
		}
		if err := checkPrivate(t.KeyFile); err != nil {
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

// checkListening carries out S1 and S2 of reliability.md 7.1: nothing but loopback without TLS and keys, unless asked for
// loudly.
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
		switch reach := reachOf(host); {
		case reach == loopback:
		case mode == ListenTLS && s.DevelopmentKey() && !s.Listening.InsecureNoTLS:
			l.problems.add(where, "%q can be reached from other machines and everybody knows the emulator's key: "+
				"listen on 127.0.0.1, give %s with a key of your own, or add --insecure-no-tls when the network is trusted", address, accessRules)
		case mode == ListenTLS:
		case !s.Listening.InsecureNoTLS && s.TLS.From == TLSOff:
			l.problems.add(where, "%q can be reached from other machines without TLS: give tls.certificate-file and tls.key-file, "+
				"listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted", address)
		case !s.Listening.InsecureNoTLS:
			l.problems.add(where, "%q can be reached from other machines without TLS: write %s/%s, "+
				"listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted", address, address, ListenTLS)
		case reach == public && !s.Listening.AcceptRisk:
			l.problems.add(where, "%q may be reached from the internet without TLS: add --i-accept-the-risk if that is meant", address)
		}
	}
}

// Listener splits one of the addresses into what to bind and whom to take there. Without a mode behind a slash loopback takes
// everybody in development mode, and other addresses take TLS alone where there is a certificate; --insecure-no-tls opens them.
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
		return "", "", fmt.Errorf("behind the slash must be %s, %s or %s", ListenAny, ListenTLS, ListenPlain)
	}
	switch {
	case s.TLS.From == TLSOff || s.TLS.From == "":
		return address, ListenPlain, nil
	case s.Mode == Development && reachOf(host) == loopback, s.Listening.InsecureNoTLS:
		return address, ListenAny, nil
	}
	return address, ListenTLS, nil
}

// reach is who can connect to a listener.
type reach uint8

const (
	loopback reach = iota
	private
	public
)

// reachOf judges the host of a listener. Names other than localhost and the wildcard addresses count as public, since
// they may be.
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

// checkEntities reads the entity file and adds the queues named one by one; the file's description of a queue wins.
func (l *loader) checkEntities() {
	s := &l.settings
	s.Entities.where = map[string]string{}
	if s.Entities.File != "" {
		file, err := readEntities(s.Entities.File)
		if problems := (Problems)(nil); errors.As(err, &problems) {
			l.problems = append(l.problems, problems...)
		} else {
			s.Entities.Put = file.queues
			for _, q := range file.queues {
				s.Entities.where[strings.ToLower(q.Path)] = file.at(file.names[strings.ToLower(q.Path)])
			}
		}
	}
	for _, name := range s.Entities.Queues {
		path, err := CleanQueueName(name)
		if err != nil {
			l.problems.add(l.origin["queue"], "%v", err)
			continue
		}
		if key := strings.ToLower(path); s.Entities.where[key] == "" {
			s.Entities.where[key] = l.origin["queue"]
			s.Entities.Put = append(s.Entities.Put, engine.PutQueue{Path: path, Properties: DefaultQueue()})
		}
	}
}
