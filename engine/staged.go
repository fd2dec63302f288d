package engine

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// stagedOperation is an operation that may become part of a transaction.
type stagedOperation struct {
	cmd   Command
	sent  int // messages
	named int // messages that it names by tokens or numbers
	size  int // in memory, or in the record of the commit, bytes
	found []stagedMessage
}

// stagedMessage holds what was found out about a message of a send when it was staged, and holds at
// the commit.
type stagedMessage struct {
	number   event.SequenceNumber // the number that the client was told; 0: none
	dropped  bool                 // its id was accepted before
	original event.SequenceNumber // with this message
}

// found returns what is known of message i of a send.
func (cmd *Send) found(i int) (m stagedMessage) {
	if cmd.staged != nil {
		m = cmd.staged[i]
	}
	return m
}

// measureStage returns the operation of a command, with the sizes that count toward the bounds of a
// transaction.
func measureStage(cmd *Stage) stagedOperation {
	op := stagedOperation{cmd: cmd.Operation, size: stagedOverhead + max(0, cmd.Bytes)}
	switch cmd := cmd.Operation.(type) {
	case *Send:
		op.sent = len(cmd.Messages)
	case *Settle:
		op.named = 1 + len(cmd.More)
		op.size += op.named * cmd.writtenSize()
	case *CancelScheduled:
		op.named = len(cmd.Sequences)
	case *SetSessionState:
		op.named = 1
	default:
		panic(fmt.Sprintf("engine: %T cannot be part of a transaction", cmd))
	}
	return op
}

// slice returns the slice that an operation is about.
func (op *stagedOperation) slice() event.Slice {
	switch cmd := op.cmd.(type) {
	case *Send:
		return cmd.Slice
	case *Settle:
		return cmd.Slice
	case *CancelScheduled:
		return cmd.Slice
	case *SetSessionState:
		return cmd.Slice
	}
	return event.Slice{}
}

// locks returns the locks that an operation relies on.
func (op *stagedOperation) locks() []event.LockToken {
	switch cmd := op.cmd.(type) {
	case *Settle:
		return append([]event.LockToken{cmd.Token}, cmd.More...)
	case *SetSessionState:
		return []event.LockToken{cmd.Session}
	}
	return nil
}

// keep turns the command into the one that the commit carries out.
func (op *stagedOperation) keep() {
	switch cmd := op.cmd.(type) {
	case *Send:
		cmd.staged = op.found
		for i := range op.found {
			if op.found[i].dropped { // it will never be read
				cmd.Messages[i].Body, cmd.Messages[i].Tail = nil, nil
			}
		}
	case *Settle:
		// the caller has read the messages, and they stay as they are
		cmd.recycled, cmd.Unread = false, false
	}
}

// find notes the findings of the decision about an operation that still hold at the commit.
func (op *stagedOperation) find(d *decision) {
	cmd, ok := op.cmd.(*Send)
	if !ok {
		return
	}
	s, _ := d.slice(cmd.Slice)
	twice := s.entity.Properties.RequiresDuplicateDetection
	// only the duplicate history of the destination counts
	if cmd.Destination != nil || !twice && !cmd.Numbers {
		return
	}
	op.found = make([]stagedMessage, len(cmd.Messages))
	next := d.index.NextSequence(cmd.Slice)
	for i, n := range d.reply.Numbers() {
		// not the number of a message that it is a duplicate of, here or in the same send
		if n >= next {
			op.found[i].number, next = n, n+1
		}
	}
	if !twice {
		return
	}
	for i := range cmd.Messages {
		m, found := &cmd.Messages[i], &op.found[i]
		found.original, found.dropped = d.index.Duplicate(cmd.Slice, d.now, s.entity.identity(m))
	}
}

// merge adds what the decision about an operation did to what those before it did.
func (op *stagedOperation) merge(all, done *scratch) {
	send, _ := op.cmd.(*Send)
	for id, n := range done.ids {
		if !send.Numbers {
			n = 0 // it gets its number at the commit
		}
		enter(&all.ids, id, n)
	}
	for id, state := range done.life {
		enter(&all.life, id, state)
	}
	for id, n := range done.states {
		enter(&all.states, id, n)
	}
}
