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

var errMemory = errors.New("there is no memory for messages")

// noMemory tells that what takes memory for good is refused.
func (s *Server) noMemory() bool { return s.memory.Level() == budget.Critical }

// keepBudget has the account of memory kept, and connections told of it.
func (s *Server) keepBudget() {
	s.memory.Press(func(budget.Level) { s.amqp.Press() })
	s.serving.Go(func() { s.memory.Watch(s.closing) })
}

// health says why messages cannot be accepted now. With little memory those are that fit into what is promised to each connection.
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
