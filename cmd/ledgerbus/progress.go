package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/ledgerbus/ledgerbus/internal/program"
)

// A progress shows the progress of long work on standard error, if that is a terminal and no
// messages are printed to a terminal.
type progress struct{ bar *progressbar.ProgressBar }

const (
	longWork         = 1000 // messages
	longWorkEntities = 50
)

// An audience reports whether standard output and standard error are terminals.
type audience struct{ out, err bool }

func currentAudience() audience {
	return audience{out: term.IsTerminal(int(os.Stdout.Fd())), err: term.IsTerminal(int(os.Stderr.Fd()))}
}

// seesEntities reports whether work on total entities has a progress bar.
func (a audience) seesEntities(total int) bool { return a.err && total >= longWorkEntities }

// sees reports whether work on total messages has a progress bar; a total of 0 is unknown.
func (a audience) sees(total int, messagesPrinted bool) bool {
	return a.err && (total <= 0 || total >= longWork) && !(messagesPrinted && a.out)
}

// newEntityProgress returns the progress bar of work on entities.
func newEntityProgress(total int, what string) progress {
	if !currentAudience().seesEntities(total) {
		return progress{}
	}
	return newBar(os.Stderr, total, what, "entities")
}

func newProgress(total int, what string, messagesPrinted bool) progress {
	if !currentAudience().sees(total, messagesPrinted) {
		return progress{}
	}
	return newBar(os.Stderr, total, what, "messages")
}

// newBar draws a bar on w; a total of 0 is unknown.
func newBar(w io.Writer, total int, what, unit string) progress {
	if total <= 0 {
		total = -1
	}
	return progress{progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(program.Printable(what)),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())}
}

func (p progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // an error of the bar does not stop the work
	}
}

func (p progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
