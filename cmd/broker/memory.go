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

// noMemory reports whether commands that use memory permanently are refused.
func (s *Server) noMemory() bool { return s.memory.Level() == budget.Critical }

// keepBudget starts the memory account and reports memory shortages to connections.
func (s *Server) keepBudget() {
	s.memory.Press(func(budget.Level) { s.amqp.Press() })
	s.serving.Go(func() { s.memory.Watch(s.closing) })
}

// health returns the reason why messages cannot be accepted now. When memory is short, messages
// that fit in a connection's guaranteed share are still accepted.
func (s *Server) health(ctx context.Context) error {
	if s.noMemory() {
		return errMemory
	}
	return s.engine.Health(ctx)
}

// conditions returns the states that keep the broker from doing all of its work.
func (s *Server) conditions() []host.Condition {
	list := s.engine.Conditions()
	if level := s.memory.Level(); level > budget.Enough {
		state := map[budget.Level]string{budget.Low: memoryLow, budget.Critical: memoryCritical}[level]
		list = append(list, host.Condition{State: state, Partition: -1, Since: s.memory.Since()})
	}
	return list
}
