package engine

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// not in the table itself: stage looks verbs up in it
func init() { verbs["stage"] = (*script).stage }

// stage makes the command that follows the name of a transaction a part of it.
func (s *script) stage(l *line) {
	name, verb := l.words[0], l.words[1]
	carryOut, ok := verbs[verb]
	if !ok {
		l.t.Fatalf("unknown command %q", verb)
	}
	s.transaction = name
	defer func() { s.transaction = "" }()
	_, text, _ := strings.Cut(l.text, verb)
	carryOut(s, &line{l.t, l.out, verb, text, l.words[2:], l.opts})
}

// transactionOf returns the id of the transaction that a script names by a letter.
func transactionOf(name string) event.TransactionID { return event.TransactionID{15: name[0]} }

// memoryOf returns the memory that a caller who stages an operation reports for it.
func memoryOf(cmd Command) (n int) {
	if send, ok := cmd.(*Send); ok {
		for i := range send.Messages {
			n += len(send.Messages[i].Body)
		}
	}
	return n
}
