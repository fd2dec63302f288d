package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Commands that a namespace sends to loops, besides those of package engine.

// configure puts an entity's settings, or rules of it, in force.
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
	// it was checked before it was stored, so this version is stricter than the one that stored it
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

// Configure returns the command that puts an entity's settings in force where it lives and, if
// ruled, replaces the rules of a subscription. It is sent when the change is durable.
func Configure(e *engine.Entity, ruled bool, rules []event.Rule) engine.Command {
	return &configureCommand{entity: e, ruled: ruled, rules: rules}
}

// ConfigureRule returns the command that puts a new or changed rule of a subscription in force, or
// takes the rule named by remove out of force.
func ConfigureRule(sub *engine.Entity, put *event.Rule, remove string) engine.Command {
	return &configureCommand{entity: sub, put: put, remove: remove}
}

// DropSlice returns the command that makes a partition forget a slice of a deleted entity, and the
// entity. It is sent when the deletion is durable.
func DropSlice(id event.Slice) engine.Command { return &dropSliceCommand{slice: id} }

// Do returns the command that calls a function with the partition, in the loop. The function must
// neither wait nor decide anything.
func Do(with func(*engine.Partition) engine.Reply) engine.Command { return &doCommand{with: with} }

type doCommand struct {
	engine.Internal
	with func(*engine.Partition) engine.Reply
}

// Ping returns the command that checks whether a partition works. Its answer leaves, like all
// others, when everything written before it is in the log.
func Ping() engine.Command { return &pingCommand{} }

type pingCommand struct{ engine.Internal }

// dropSliceCommand makes a partition forget a slice of a deleted entity, and the entity.
type dropSliceCommand struct {
	engine.Internal
	slice event.Slice
}

// dropSlice forgets a slice. Receivers that wait for a session of it are told.
func (l *Loop) dropSlice(now event.Time, cmd *dropSliceCommand) {
	l.part.Forget(cmd.slice.Entity)
	l.recorder.write(now, l.part.Decide(now, engine.DropSlice(cmd.slice)))
	l.receivers.OpenSessions(cmd.slice)
}

// carryOut carries out a command of a namespace.
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
	case *Activity:
		return l.activity.tell(l.recorder.now(), cmd)
	case *Snapshot:
		return cmd.Take(l)
	}
	return reply
}

// configureCommand gives a partition the settings of an entity, and rules of a subscription. These
// are all its rules, one new or changed rule, or the name of a deleted rule.
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
	lock event.LockToken // lock of the delivery; zero: none, or it does not matter
	is   func()          // called if it is damage; nil: that is known
}

// Damage returns the command that tells a partition that a stored body could not be read back. The
// lock is that of the delivery; zero: none, or it does not matter. If it is damage, the command
// calls is, which may be nil.
func Damage(err error, lock event.LockToken, is func()) engine.Command {
	return &damageCommand{err: err, lock: lock, is: is}
}
