package servicebus

import (
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// request is a message to a $cbs or $management node, and the state of its answer (2.3, 6.2).
type request struct {
	l          *link // that it came on
	id         any   // message-id
	replyTo    string
	properties amqp.Map                      // application-properties
	body       any                           // of the amqp-value section
	size       int                           // encoded
	rule       string                        // that it is about; "": none
	onReply    func(*request, *engine.Reply) // handles the engine's success
	// called before a refusal of the engine, or a late answer, is passed on; nil: nothing to do
	onRefused func(*request)
	// continues after an error of the engine without the failed part, or returns false; nil: not
	// possible
	onFailed func(*request, error) bool

	timeout  time.Duration
	deadline time.Time // zero: none
	until    time.Time // the last deadline, even after its removal
	place    int       // in deadlines
	over     bool      // the client was told that the request has timed out
	part     part      // of a transaction
	key      oneKey    // of the messages it settles, if it says so
	stages   bool      // takes effect with its transaction, if it is part of one
	takes    bool      // counted in pendings.taking
	deletes  bool      // its messages are deleted: they cannot be given back
	// bytes for its answer, taken from the connection's share before a step that cannot be undone
	room int

	asked int          // expected answers of the engine
	read  *atomic.Bool // the bodies that the answers point to have been read, or never will be
}

// request handles a whole request. It accepts the request first: the result is in the answer.
func (s *sender) request(body []byte) {
	req, e := parseRequest(s.l, body)
	if e != nil {
		s.reject(e.Condition, e.Description)
		return
	}
	req.part = s.delivery.part
	s.accept()
	if s.l.at.cbs {
		req.putToken()
		return
	}
	req.manage()
}

func parseRequest(l *link, b []byte) (*request, *amqp.Error) {
	limits := l.c.decoder.Limits
	s, err := amqp.ScanMessage(b, limits)
	if err != nil {
		return nil, message.DecodeError(err)
	}
	req := &request{l: l, size: len(b), read: new(atomic.Bool)}
	if section := s.Properties.Of(b); section != nil {
		p, err := amqp.DecodeProperties(section)
		if err != nil {
			return nil, message.DecodeError(err)
		}
		req.id, req.replyTo = p.MessageID, p.ReplyTo.Value
	}
	if _, raw, ok := amqp.SectionContent(s.ApplicationProperties.Of(b)); ok {
		v, _, err := amqp.DecodeValue(raw, limits)
		if err != nil {
			return nil, message.DecodeError(err)
		}
		req.properties, _ = v.(amqp.Map)
	}
	if s.BodyKind == amqp.BodyValue {
		if _, raw, ok := amqp.SectionContent(s.Body.Of(b)); ok {
			if req.body, _, err = amqp.DecodeValue(raw, limits); err != nil {
				return nil, message.DecodeError(err)
			}
		}
	}
	return req, nil
}

// answered is called with the engine's reply.
func (req *request) answered(r *engine.Reply) {
	req.asked--
	req.goesOn(r)
	if req.asked == 0 { // there are no further requests for it
		req.read.Store(true)
	}
}

func (req *request) goesOn(r *engine.Reply) {
	c := req.l.c
	c.deadlines.remove(req)
	if req.onRefused != nil && (r.Err != nil || req.over) {
		req.onRefused(req)
	}
	switch {
	case req.over:
		req.releaseLate(r)
		return
	case c.phase != opened:
		return
	case r.Err == nil && len(r.Messages())+len(r.Rules())+len(r.SessionIDs().IDs) > 0 && c.memory.answersWait() && !req.deletes:
		if req.releaseLate(r); req.onRefused != nil {
			req.onRefused(req)
		}
		req.refuse(503, amqp.CondServerBusy, tooManyAnswers)
		return
	}
	if r.Err != nil && req.onFailed != nil && req.onFailed(req, r.Err) {
		return
	}
	if r.Err != nil {
		req.part.in.refused(r.Err)
		cond, text := req.describe(r.Err)
		if cond.symbol == amqp.CondDetachForced {
			req.l.end(cond.symbol, text)
			return
		}
		req.refuse(cond.status, cond.symbol, text)
		return
	}
	req.onReply(req, r)
	c.turns.giveWay(c.now)
}

// respond sends an answer: properties with the correlation-id in the type of the message-id,
// application-properties, and an amqp-value, which is null if there is nothing to return.
func (req *request) respond(properties, body amqp.Map) {
	c := req.l.c
	r := c.sessions.replyLink(req)
	if r == nil {
		c.log.Info("servicebus: no link for the answer to a request", "link", loggable(req.l.name), "entity", req.l.at.path)
		return
	}
	if len(r.answers) >= c.limits.Requests || c.memory.answersPileUp() {
		r.l.end(amqp.CondResourceLimit, "Too many answers wait for credit.")
		return
	}
	dst := amqp.AppendProperties(nil, &amqp.Properties{CorrelationID: req.id})
	dst = amqp.AppendSection(dst, amqp.SectionApplicationProperties, properties)
	if len(body) == 0 {
		dst = amqp.AppendSection(dst, amqp.SectionValue, nil)
	} else {
		dst = amqp.AppendSection(dst, amqp.SectionValue, body)
	}
	r.answers = append(r.answers, dst)
	c.memory.queueAnswer(dst)
	r.makeReady()
}

// replyLink finds the link for an answer on this connection: by target address, else by name, else
// the link of the same session and node, else the only link to that node (2.3). If several fit, the
// closest to the request wins.
func (t sessionTable) replyLink(req *request) *receiver {
	path := req.l.at.claimPath()
	var best *receiver
	bestScore, fallbacks := 0, 0
	look := func(s *session) {
		for _, l := range s.links {
			score := req.fits(l, path)
			if score == nodeScore+sameNodeScore {
				fallbacks++
			}
			if score > bestScore {
				best, bestScore = l.receiver, score
			}
		}
	}
	look(req.l.s)
	// nearly always: the other links, of which there may be thousands, need not be checked
	if bestScore == bestFit {
		return best
	}
	for _, s := range t {
		if s != req.l.s {
			look(s)
		}
	}
	if bestScore < sessionScore && fallbacks > 1 {
		return nil
	}
	return best
}

// Scores of a link for an answer. The first four exclude each other; the last two may be added.
const (
	addressScore = 40
	nameScore    = 30
	sessionScore = 20
	nodeScore    = 10

	sameNodeScore    = 2
	sameSessionScore = 1

	bestFit = addressScore + sameNodeScore + sameSessionScore
)

// fits returns the score of the link for the answer to the request, which came for the node with
// the path; 0: not at all.
func (req *request) fits(l *link, path string) (score int) {
	r := l.receiver
	if r == nil || l.detached || !l.at.node() || l.at.cbs != req.l.at.cbs {
		return 0
	}
	sameNode, sameSession := l.at.claimPath() == path, l.s == req.l.s
	switch {
	case req.replyTo != "" && r.replyTo == req.replyTo:
		score = addressScore
	case req.replyTo != "" && l.name == req.replyTo:
		score = nameScore
	case sameSession && sameNode:
		score = sessionScore
	case sameNode:
		score = nodeScore
	default:
		return 0
	}
	if sameNode {
		score += sameNodeScore
	}
	if sameSession {
		score += sameSessionScore
	}
	return score
}

// text returns a string of the request's application-properties.
func (req *request) text(key string) string { return message.TextOf(req.properties, key) }
