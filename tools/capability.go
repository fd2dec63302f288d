package tools

import (
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// unlistedCapabilities returns a function that reports events whose capability namespace.json does
// not list, once for each capability. The capability must be listed before the first such event is
// written, because a program that does not know it would accept the directory (log-format.md 4).
func (v *verifier) unlistedCapabilities(p log.Partition) func(*replay.Record) error {
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
			if err := v.damage(damagedPlace(p, wrong).(*log.CorruptError)); err != nil {
				return err
			}
		}
		return nil
	}
}
