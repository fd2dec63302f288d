package broker

import (
	"context"
	"errors"

	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/internal/budget"
)

// States of memory (docs/decisions/0041), as /health names them.
const (
	memoryLow      = "memory-low"
	memoryCritical = "memory-critical"
)

var errMemory = errors.New("no memory left for messages")

// noMemory reports whether whatever takes memory for good is refused.
func (s *Server) noMemory() bool { return s.memory.Level() == budget.Critical }

// keepBudget starts the account of memory, and has connections told when memory is short.
func (s *Server) keepBudget() {
	s.memory.Press(func(budget.Level) { s.amqp.Press() })
	s.serving.Go(func() { s.memory.Watch(s.closing) })
}

// health says why messages cannot be accepted now. With little memory those still are that fit into
// what is promised to each connection.
func (s *Server) health(ctx context.Context) error {
	if s.noMemory() {
		return errMemory
	}
	return s.engine.Health(ctx)
}

// conditions are the states that keep the broker from doing all of its work.
func (s *Server) conditions() []host.Condition {
	list := s.engine.Conditions()
	if level := s.memory.Level(); level > budget.Enough {
		state := map[budget.Level]string{budget.Low: memoryLow, budget.Critical: memoryCritical}[level]
		list = append(list, host.Condition{State: state, Partition: -1, Since: s.memory.Since()})
	}
	return list
}
