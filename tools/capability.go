package tools

import (
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// listing looks for events of capabilities that namespace.json does not list, though it must before
// the first of them is written: a program that knows no such events would take the directory
// (log-format.md 4). The first of each is reported.
func (v *verifier) listing(p log.Partition) func(*replay.Record) error {
	var reported []string
	return func(rec *replay.Record) error {
		for _, ev := range rec.Events {
			c := event.CapabilityOf(ev)
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
