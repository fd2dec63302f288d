package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What a namespace asks of loops, beside the commands of package engine.

// configure puts an entity's settings in force, or rules of it.
func (l *Loop) configure(cmd *configureCommand) {
	l.part.Configure(cmd.entity)
	l.transfers.wake(cmd.entity)
	var err error
	switch {
	case cmd.ruled:
		err = l.part.ConfigureRules(cmd.entity, cmd.rules)
	case cmd.put != nil:
		err = l.part.ConfigureRule(cmd.entity, *cmd.put)
	case cmd.remove != "":
		l.part.ForgetRule(cmd.entity, cmd.remove)
	}
	// it was checked before it was stored, so this is a newer program that is stricter
	if err != nil {
		l.recorder.logger.Error("stored rule invalid; it matches no message", "error", err)
	}
}

// Prepare carries out commands of [Configure] and [Order] before the loop runs.
func (l *Loop) Prepare(commands ...engine.Command) {
	for _, cmd := range commands {
		switch cmd := cmd.(type) {
		case *configureCommand:
			l.configure(cmd)
		case *ordersCommand:
			l.transfers.order(cmd)
		}
	}
}

// Configure is the command that puts an entity's settings in force where it lives and, if ruled,
// the rules of a subscription instead of those it had. It is sent when the change is durable.
func Configure(e *engine.Entity, ruled bool, rules []event.Rule) engine.Command {
	return &configureCommand{entity: e, ruled: ruled, rules: rules}
}

// ConfigureRule is the command that puts a rule of a subscription in force, new or changed, or
// takes the one named out of force.
func ConfigureRule(sub *engine.Entity, put *event.Rule, remove string) engine.Command {
	return &configureCommand{entity: sub, put: put, remove: remove}
}

// DropSlice is the command that has a partition forget a slice of an entity that was deleted, and
// the entity. It is sent when the deletion is durable.
func DropSlice(id event.Slice) engine.Command { return &dropSliceCommand{slice: id} }

// Do is the command that calls a function with the partition, in the loop. It must not wait, nor
// decide anything.
func Do(with func(*engine.Partition) engine.Reply) engine.Command { return &doCommand{with: with} }

type doCommand struct {
	engine.Internal
	with func(*engine.Partition) engine.Reply
}

// Ping is the command that asks a partition whether it works. The answer leaves, as all do, when
// what was written before it is in the log.
func Ping() engine.Command { return &pingCommand{} }

type pingCommand struct{ engine.Internal }

// dropSliceCommand has a partition forget a slice of an entity that is no more, and the entity.
type dropSliceCommand struct {
	engine.Internal
	slice event.Slice
}

// dropSlice forgets a slice. Whoever waits for a session of it is told.
func (l *Loop) dropSlice(now event.Time, cmd *dropSliceCommand) {
	l.part.Forget(cmd.slice.Entity)
	l.recorder.write(now, l.part.Decide(now, engine.DropSlice(cmd.slice)))
	l.receivers.OpenSessions(cmd.slice)
}

// carryOut does what a namespace asks of a loop.
func (l *Loop) carryOut(cmd engine.Command) (reply engine.Reply) {
	switch cmd := cmd.(type) {
	case *configureCommand:
		l.configure(cmd)
	case *doCommand:
		return cmd.with(l.part)
	case *pingCommand:
		reply.Err = l.limits.damaged
	case *damageCommand:
		l.limits.noteDamage(cmd)
	case *Usage:
		cmd.IDs = l.receivers.usage()
		reply.Answer = cmd
	case *Snapshot:
		return cmd.Take(l)
	}
	return reply
}

// configureCommand gives a partition the settings of an entity, and rules of a subscription: all it
// has, one that is new or changed, or the name of one that is gone.
type configureCommand struct {
	engine.Internal
	entity *engine.Entity
	ruled  bool
	rules  []event.Rule
	put    *event.Rule
	remove string
}

// damageCommand tells a partition that a stored body could not be read back.
type damageCommand struct {
	engine.Internal
	err  error
	lock event.LockToken // under which the message was given; zero: none, or it does not matter
	is   func()          // called if it is damage; nil: that is known
}

// Damage is the command that tells a partition that a stored body could not be read back, with the
// lock under which the message was given; zero: none, or it does not matter. If it is damage, is,
// which may be nil, is called.
func Damage(err error, lock event.LockToken, is func()) engine.Command {
	return &damageCommand{err: err, lock: lock, is: is}
}
