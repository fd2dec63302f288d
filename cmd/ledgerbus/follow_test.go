package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// Events of a broker are printed while they happen.
func TestFollow(t *testing.T) {
	broker := startBroker(t)
	cmd := command(t, broker, "events", "orders", "-f", "--since", "1m", "--type", "sent", "--type", "dead", "--type", "locked", "--where", "type <> 'locked'", "-o", "csv")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	causeFailures(t, broker) // after it has begun to follow, as far as that goes
	lines := bufio.NewScanner(out)
	var got []string
	for len(got) < 8 && lines.Scan() {
		got = append(got, strings.Join(strings.Split(lines.Text(), ",")[1:4], " "))
	}
	want := []string{"Type Entity Number", "sent orders 1", "dead orders 1", "sent orders 2", "sent orders 3", "sent orders 4", "dead orders 2", "dead orders 3"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q\n%s", got, want, errOut.String())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, %s", err, errOut.String())
	}
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"events", "-f", "--until", "now"}, "--follow and --until"},
		{[]string{"events", "-f", "--priority", "high"}, "not one of low, normal"},
		{[]string{"log", "mirror", "--into", "mirror", "--priority", "high"}, "not one of low, normal"},
		{[]string{"events", "-f", "--live"}, "over HTTP"},
		{[]string{"events", "-f", "--data", "data"}, "over HTTP"},
		{[]string{"events", "-f", "--live", "--data", "data"}, "over HTTP"},
		{[]string{"log", "mirror", "data", "--into", "mirror"}, "over HTTP"},
		{[]string{"events", "-f", "--where", "type IN"}, "--where"},
	} {
		if r := execute(t, broker, "", c.args...); r.code != 2 || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%q: %+v; want r.code == 2 && strings.Contains(r.errOut, c.text)", c.args, r)
		}
	}
}

// An interrupted request is repeated, and nothing is printed twice. Notes that still apply are not
// printed again.
func TestFollowBreaksOff(t *testing.T) {
	var out, notes bytes.Buffer
	q := &ledger.Question{After: ledger.FromNow}
	f := &followPosition{answerPrinter: &answerPrinter{Printer: output.New(&out, &notes, output.Text)}, q: q}
	line := func(part, text string, fields ...print.Field) wire.Line {
		raw, err := print.Object(fields).AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		return wire.Line{Part: part, Text: text, Fields: raw}
	}
	row := func(place, text string) wire.Line { return line("row", text, print.Named("Place", place)) }
	note := line("note", "partition 2 is away")
	broken := errors.New("broken off")
	look := func(end error, lines ...wire.Line) {
		t.Helper()
		err := f.look(func(heard func(*wire.Line) error) error {
			for _, l := range lines {
				if err := heard(&l); err != nil {
					return err
				}
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatalf("%+v; want errors.Is(err, end)", err)
		}
	}
	next := func(at string) wire.Line { return line("answer", "up to", print.Named(ledger.NextField, at)) }
	look(broken, row("@0/8", "a"), row("@1/8", "b"), row("@0/8", "c"))
	look(broken, row("@1/8", "b"), row("@0/8", "a")) // in another order, and less far
	look(nil, note, row("@0/8", "a"), row("@1/8", "b"), row("@0/8", "c"), row("@0/8", "d"), row("@0/16", "e"), row("@1/8", "f"), next("@0/24,@1/16"))
	if q.After != "@0/24,@1/16" {
		t.Errorf("goes on behind %q", q.After)
	}
	look(nil, note, row("@0/24", "g"), next("@0/32,@1/16"))
	if got := strings.Join(strings.Fields(out.String()), " "); got != "a b c partition 2 is away d e f g" {
		t.Errorf(`%q, want "a b c partition 2 is away d e f g"`, got)
	}
	if err := f.look(func(func(*wire.Line) error) error { return nil }); err == nil || !strings.Contains(err.Error(), "continue from") {
		t.Errorf(`%+v; want err != nil && strings.Contains(err.Error(), "continue from")`, err)
	}
	if err := f.look(func(heard func(*wire.Line) error) error { l := row("nowhere", "h"); return heard(&l) }); err == nil || !strings.Contains(fmt.Sprint(err), "place") {
		t.Errorf(`%+v; want err != nil && strings.Contains(fmt.Sprint(err), "place")`, err)
	}
}

// --priority is accepted and changes nothing, and the command reports this.
func TestPriorityDoesNothing(t *testing.T) {
	t.Parallel()
	broker := startBroker(t)
	r := execute(t, broker, "", "log", "mirror", "--into", filepath.Join(t.TempDir(), "mirror"), "--once", "--priority", "low")
	if r.code != 0 || strings.Count(r.errOut, "\n") != 1 || !strings.Contains(r.errOut, "nice -n 19 ledgerbus log mirror") {
		t.Errorf("exit code %d, %q", r.code, r.errOut)
	}
}

// A broker that does not answer ends the round and not the command. A command with a single round
// reports it.
func TestRoundsGoOn(t *testing.T) {
	t.Parallel()
	away := &admin.Error{Status: http.StatusServiceUnavailable}
	for _, once := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		rounds := 0
		r := pollLoop{every: time.Nanosecond, once: once, notes: io.Discard}
		err := r.run(ctx, func() error {
			if rounds++; rounds == 3 {
				stop()
			}
			return away
		})
		stop()
		if once && (rounds != 1 || !errors.Is(err, away)) || !once && (rounds != 3 || err != nil) {
			t.Errorf("once %v: %d rounds, %v", once, rounds, err)
		}
	}
}
