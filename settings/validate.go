package settings

import (
	"errors"
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

// checkListening carries out S1 and S2 of reliability.md 7.1: nothing but loopback without TLS, unless asked for loudly.
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
	for _, address := range s.Listening.Addresses {
		host, err := splitAddress(address)
		if err != nil {
			l.problems.add(where, "%q: %v", address, err)
			continue
		}
		if seen[address] && !strings.HasSuffix(address, ":0") {
			l.problems.add(where, "%q is listed twice", address)
		}
		seen[address] = true
		switch reach := reachOf(host); {
		case reach == loopback:
		case !s.Listening.InsecureNoTLS:
			l.problems.add(where, "%q can be reached from other machines and TLS comes with a later version: "+
				"listen on 127.0.0.1, or add --insecure-no-tls when the network is trusted", address)
		case reach == public && !s.Listening.AcceptRisk:
			l.problems.add(where, "%q may be reached from the internet without TLS: add --i-accept-the-risk if that is meant", address)
		}
	}
}

func splitAddress(address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", errors.New("must be HOST:PORT")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("the port must be a number from 0 to 65535")
	}
	return host, nil
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
	if s.Entities.File != "" {
		put, err := ReadEntities(s.Entities.File)
		if problems := (Problems)(nil); errors.As(err, &problems) {
			l.problems = append(l.problems, problems...)
		}
		s.Entities.Put = put
	}
	described := map[string]bool{}
	for _, q := range s.Entities.Put {
		described[strings.ToLower(q.Path)] = true
	}
	for _, name := range s.Entities.Queues {
		path, err := CleanQueueName(name)
		if err != nil {
			l.problems.add(l.origin["queue"], "%v", err)
			continue
		}
		if !described[strings.ToLower(path)] {
			described[strings.ToLower(path)] = true
			s.Entities.Put = append(s.Entities.Put, engine.PutQueue{Path: path, Properties: DefaultQueue()})
		}
	}
}
