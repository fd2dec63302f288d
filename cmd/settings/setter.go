package settings

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// setter reads the values of a setting.
type setter struct {
	takes string // the values that the setting takes, for people
	set   func(s *Settings, values []string) error
}

func text(takes string, field func(*Settings) *string) setter {
	return setter{takes, func(s *Settings, values []string) error {
		if values[0] == "" {
			return errors.New("must not be empty")
		}
		*field(s) = values[0]
		return nil
	}}
}

func list(takes string, field func(*Settings) *[]string) setter {
	return setter{takes, func(s *Settings, values []string) error {
		*field(s) = values
		return nil
	}}
}

func toggle(field func(*Settings) *bool) setter {
	return setter{"true or false", func(s *Settings, values []string) error {
		v, err := strconv.ParseBool(values[0])
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", values[0])
		}
		*field(s) = v
		return nil
	}}
}

// choice takes one of several names.
func choice(set func(s *Settings, name string), names ...string) setter {
	last := len(names) - 1
	takes := strings.Join(names[:last], ", ") + " or " + names[last]
	return setter{takes, func(s *Settings, values []string) error {
		switch {
		case slices.Contains(names, values[0]):
			set(s, values[0])
			return nil
		case len(names) == 2:
			return fmt.Errorf("%q is neither %s nor %s", values[0], names[0], names[1])
		}
		return fmt.Errorf("%q is not one of %s", values[0], strings.Join(names, ", "))
	}}
}

func count[N int | uint32](field func(*Settings) *N, least, most int) setter {
	takes := fmt.Sprintf("whole number from %d to %d", least, most)
	return setter{takes, func(s *Settings, values []string) error {
		v, err := strconv.Atoi(values[0])
		if err != nil || v < least || v > most {
			return fmt.Errorf("%q is not a %s", values[0], takes)
		}
		*field(s) = N(v)
		return nil
	}}
}

func size[N int | int64](field func(*Settings) *N, takes quantity.Sizes) setter {
	return setter{takes.String(), func(s *Settings, values []string) error {
		n, err := takes.Parse(values[0])
		if err == nil {
			*field(s) = N(n)
		}
		return err
	}}
}

func period(set func(*Settings, time.Duration), takes quantity.Durations) setter {
	return setter{takes.String(), func(s *Settings, values []string) error {
		d, err := takes.Parse(values[0])
		if err == nil {
			set(s, d)
		}
		return err
	}}
}

func retention(field func(*Settings) *event.Retention) setter {
	return setter{event.Retentions.String(), func(s *Settings, values []string) (err error) {
		*field(s), err = event.ParseRetention(values[0])
		return err
	}}
}

func setFailuresTo(s *Settings, name string) {
	if s.FailuresTo = event.DeadLetter; name != "dead-letter" {
		s.FailuresTo = event.TransferDeadLetter
	}
}

func setBeforeSends(s *Settings, name string) {
	if s.History.BeforeSends = engine.BeforeSendsNo; name == "true" {
		s.History.BeforeSends = engine.BeforeSendsYes
	}
}

func setAcceptClock(s *Settings, name string) {
	if s.Clock.Accept = host.AcceptLog; name != "log" {
		s.Clock.Accept = host.AcceptWall
	}
}

func setSealAfter(s *Settings, d time.Duration) {
	switch d {
	case quantity.Unlimited:
		s.Storage.SealAfter = 0
	case 0:
		s.Storage.SealAfter = -1
	default:
		s.Storage.SealAfter = d
	}
}

func setScrubEvery(s *Settings, d time.Duration) {
	if s.Storage.ScrubEvery = d; d == quantity.Unlimited {
		s.Storage.ScrubEvery = 0
	}
}

func setReason(s *Settings, values []string) error {
	if err := engine.CheckReason(values[0]); err != nil {
		return errors.New(err.Text)
	}
	s.Clock.Reason = values[0]
	return nil
}
