package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/tools/doctor"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// syncTime is the duration of each sync measurement. clockApart is the tolerated difference between
// the clocks of the broker and of this machine; a broker reports its clock in whole seconds.
const (
	syncTime   = 400 * time.Millisecond
	clockApart = 5 * time.Second
)

// errUnwell reports that a check found a condition in which a broker does not work.
var errUnwell = errors.New("at least one check is bad; see the lines above")

var findingColumns = []string{"Check", "Verdict", "Finding", "Remedy"}

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check a data directory and the machine it is on, or a running broker",
		Description: "Prints a line for each check: ok, warning or bad, with a remedy. The exit code is 0 unless a check is bad.\n\n" +
			"With --data it checks the settings that serve would use with the same --config and environment, the\n" +
			"permissions of the directory, the free space, the time that a sync takes, the number of syncs that the\n" +
			"disk can run at once, the clock, and the log. It reads the whole log, compares every checksum, replays\n" +
			"every event and compares the result with the hash of each stored state. A broker may be running on the\n" +
			"directory. The directory is not changed: the disk is measured with files named doctor-PID-N.tmp, which\n" +
			"are unlinked before they are written.\n\n" +
			"Without --data it asks a broker whether it accepts messages, and for the state of its partitions and its\n" +
			"clock. The key needs the right Manage.\n\n" +
			"   ledgerbus doctor --data /var/lib/ledgerbus --config /etc/ledgerbus.yaml\n" +
			"   ledgerbus doctor --context production",
		Flags: connectionFlags(
			&cli.StringFlag{Name: "data", Usage: "data directory to check, instead of a broker"},
			&cli.StringFlag{Name: "config", Usage: "YAML file with the broker's settings [$LEDGERBUS_CONFIG]"},
			output.Flag(), liveFlag()),
		Action: examine,
	}
}

// A consultation prints and counts findings.
type consultation struct {
	*answerPrinter
	good, warnings, bad int
}

func (d *consultation) addFinding(f doctor.Finding) error {
	switch f.Verdict {
	case doctor.Good:
		d.good++
	case doctor.Warning:
		d.warnings++
	default:
		d.bad++
	}
	text := fmt.Sprintf("%-8s %-12s %s", f.Verdict, f.Check, f.Text)
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return d.printLine(ledger.Line{Part: ledger.Row, Text: text, Fields: print.Object{print.Named("Check", f.Check), print.Named("Verdict", string(f.Verdict)),
		print.Named("Finding", print.Text([]byte(f.Text))), print.Named("Remedy", f.Remedy)}})
}

// end prints the number of checks and of findings. It returns errUnwell if a finding is bad.
func (d *consultation) end() error {
	if err := d.printLine(ledger.Line{Part: ledger.Answer, Text: fmt.Sprintf("%s, %s, %d bad", plural(d.good+d.warnings+d.bad, "check"), plural(d.warnings, "warning"), d.bad),
		Fields: print.Object{print.Named("Good", uint64(d.good)), print.Named("Warnings", uint64(d.warnings)), print.Named("Bad", uint64(d.bad))}}); err != nil {
		return err
	}
	if d.bad > 0 {
		return errUnwell
	}
	return nil
}

func examine(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	d := &consultation{answerPrinter: newAnswerPrinter(c, findingColumns)}
	if !c.IsSet("data") {
		if c.Bool("live") || c.IsSet("config") {
			return usageError{errors.New("--live and --config need --data")}
		}
		if err := administer(c, func(a *administration) error { return d.broker(a) }); err != nil {
			return err
		}
		return d.end()
	}
	if err := refuseNamespaceFlags(c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := d.settings(c); err != nil {
		return err
	}
	how := doctor.Options{Beside: beside(c), Now: time.Now, Sync: syncTime}
	if err := doctor.Examine(ctx, c.String("data"), how, d.addFinding); err != nil {
		return usageError{fmt.Errorf("--data: %w", err)}
	}
	return d.end()
}

// settings checks whether serve would accept the settings.
func (d *consultation) settings(c *cli.Context) error {
	s, err := settings.Load(settings.Sources{File: configFile(c), Env: os.LookupEnv, Flags: map[string][]string{"data": {c.String("data")}}})
	if err != nil {
		return d.addFinding(doctor.Finding{Check: "settings", Verdict: doctor.Bad, Text: output.OneLine(strings.TrimSpace(err.Error())), Remedy: "docs/guide/settings.md lists the settings"})
	}
	f := doctor.Finding{Check: "settings", Verdict: doctor.Good, Text: "serve accepts the environment and the defaults; there is no file"}
	if name := configFile(c); name != "" {
		f.Text = "serve accepts " + name + " and the environment"
	}
	if s.Mode == settings.Development {
		f.Verdict, f.Text = doctor.Warning, f.Text+"; the mode is development, whose key is publicly known"
		f.Remedy = "create a file for production with ledgerbus init"
	}
	return d.addFinding(f)
}

// broker checks a running broker.
func (d *consultation) broker(a *administration) error {
	asked := time.Now()
	h, err := a.Health(a.ctx, healthPath)
	if err != nil {
		return err
	}
	took := time.Since(asked)
	f := doctor.Finding{Check: "health", Verdict: doctor.Good, Text: fmt.Sprintf("accepts messages; answered in %v", took.Round(10*time.Microsecond))}
	var says struct{ Conditions []json.RawMessage }
	switch _ = json.Unmarshal([]byte(h.Text), &says); { // a text that is not JSON has no conditions
	case !h.Well:
		f.Verdict, f.Text, f.Remedy = doctor.Bad, "accepts no messages: "+output.OneLine(h.Text), "ledgerbus partition list; docs/guide/operating.md"
	case len(says.Conditions) > 0:
		f.Verdict, f.Text, f.Remedy = doctor.Warning, "accepts messages, with conditions: "+output.OneLine(h.Text), "docs/guide/operating.md"
	}
	if err := d.addFinding(f); err != nil {
		return err
	}
	if err := d.brokerClock(h.Time, asked.Add(took/2)); err != nil {
		return err
	}
	return d.partitions(a)
}

func (d *consultation) brokerClock(theirs, ours time.Time) error {
	f := doctor.Finding{Check: "clock", Verdict: doctor.Good, Text: "the clocks of the broker and of this machine agree to within a second or two"}
	switch apart := ours.Sub(theirs).Abs(); {
	case theirs.IsZero():
		f.Verdict, f.Text = doctor.Warning, "the broker does not report its clock"
	case apart > clockApart:
		f.Verdict, f.Text, f.Remedy = doctor.Warning, fmt.Sprintf("the broker's clock shows %s, this machine's %s", theirs.UTC().Format(time.RFC3339), ours.UTC().Format(time.RFC3339)), "correct the wrong clock"
	}
	return d.addFinding(f)
}

// partitions checks the partitions of the log.
func (d *consultation) partitions(a *administration) error {
	all, err := a.Partitions(a.ctx)
	if err != nil {
		return d.addFinding(doctor.Finding{Check: "partitions", Verdict: doctor.Bad, Text: output.OneLine(err.Error()), Remedy: "use a key with the right Manage"})
	}
	serving := 0
	for _, p := range all {
		switch {
		case p.State != "serving":
			err = d.addFinding(doctor.Finding{Check: "partitions", Verdict: doctor.Bad, Text: output.OneLine(fmt.Sprintf("partition %d is %s: %s", p.ID, p.State, p.Cause)), Remedy: "docs/guide/partitions.md"})
		case p.Cause != "":
			err = d.addFinding(doctor.Finding{Check: "partitions", Verdict: doctor.Bad, Text: output.OneLine(fmt.Sprintf("partition %d has damaged data: %s", p.ID, p.Cause)), Remedy: "docs/guide/partitions.md"})
		default:
			serving++
		}
		if err != nil {
			return err
		}
	}
	if serving < len(all) {
		return nil
	}
	return d.addFinding(doctor.Finding{Check: "partitions", Verdict: doctor.Good, Text: fmt.Sprintf("%s, all serving, no known damage", plural(serving, "partition"))})
}
