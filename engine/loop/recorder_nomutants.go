//go:build !mutants

package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The places of planted bugs, which are in recorder_mutants.go.

func splitRecord(_ *recorder, _ event.Time, out engine.Outcome) engine.Outcome { return out }

func applyRuleEarly(*engine.Partition, event.Event) {}

func keepDecided(*Loop, *engine.Request) {}

func routeAgain(*Loop) {}
