package tools

import (
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// listing looks for events of capabilities that namespace.json does not list, though it must before the first of them is written: a program that knows
// no such events would take the directory (log-format.md 4). The first of each is reported.
func (v *verifier) listing(p log.Partition) func(*replay.Record) error {
	var reported []string
	return func(rec *replay.Record) error {
		for _, ev := range rec.Events {
			c := capabilityOf(ev)
			if c == "" || slices.Contains(v.listed, c) || slices.Contains(reported, c) {
				continue
			}
			reported = append(reported, c)
			wrong := &replay.Error{Partition: p.ID(), LSN: rec.LSN, Number: rec.Number,
				Reason: fmt.Errorf("%v needs the capability %q, which namespace.json does not list", ev.Kind(), c)}
			if err := v.damage(located(p, wrong).(*log.CorruptError)); err != nil {
				return err
			}
		}
		return nil
	}
}

// capabilityOf is the capability that namespace.json must list for a log to have an event; "": none.
func capabilityOf(ev event.Event) string {
	var arrival *event.Arrival
	var keyed bool // it is of an entity with several partitions
	switch ev := ev.(type) {
	case *event.TransactionCommitted, *event.TransactionAborted, *event.NumbersReserved:
		return log.Transactions
	case *event.TransferStarted, *event.MessageHandedOver, *event.TransfersFinished, *event.TransferFailed, *event.SourceForgotten:
		return log.Moves
	case *event.PartitionFenced, *event.PartitionRestarted:
		return log.Fences
	case *event.HistoryPolicySet:
		return log.Policies
	case *event.BackupMarked:
		return log.Backups
	case *event.BodyErased:
		return log.Erasures
	case *event.ErasureFinished:
		return log.Erased
	case *event.HistoryCut:
		return log.Cuts
	case *event.MessageDeadLettered:
		if ev.SubQueue == event.TransferDeadLetter {
			return log.Moves
		}
	case *event.MessageScheduled:
		arrival, keyed = ev.Arrival, ev.Keyed
		if ev.Reserved {
			return log.Transactions
		}
	case *event.MessageEnqueued:
		arrival, keyed = ev.Arrival, ev.Keyed
	case *event.MessagePublished:
		arrival, keyed = ev.Arrival, ev.Keyed
	case *event.EntityCreated:
		keyed = ev.KeyHash != 0
	case *event.DuplicateDropped:
		arrival = ev.Arrival
	}
	switch {
	case arrival != nil:
		return log.Moves
	case keyed:
		return log.Partitioned
	}
	return ""
}
