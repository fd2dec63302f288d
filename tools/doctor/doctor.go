package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/tools"
)

// Verdict is how good or bad a finding is.
type Verdict string

const (
	Good    Verdict = "ok"
	Warning Verdict = "warning" // it works, and somebody should know
	Bad     Verdict = "bad"     // a broker does not start with it, loses or refuses something
)

// Finding is what a check has found.
type Finding struct {
	Check   string // permissions, disk, sync, log, replay, clock
	Verdict Verdict
	Text    string // what is the case, in one line
	Remedy  string // what to do; "": nothing
}

// Options say what is examined.
type Options struct {
	tools.Beside
	Now  func() time.Time // the wall clock
	Sync time.Duration    // how long each way of syncing is measured
}

// Bounds of verdicts.
const (
	slowSync  = 10 * time.Millisecond
	lateSync  = 100 * time.Millisecond // p99
	quickSync = 15 * time.Microsecond
	fewFree   = 1 << 30  // bytes
	leastFree = 16 << 20 // less is too little for the reserve of a start
	mostNamed = 3        // files with the same defect

	// as a start has them (reliability.md 1.4)
	maxBehind = time.Hour
	notable   = 10 * time.Minute
	maxGap    = 400 * 24 * time.Hour
)

// Examine examines a data directory and tells what it finds, as it is found. The error is about the
// examination itself, such as that there is no directory.
func Examine(ctx context.Context, dir string, o Options, tell func(Finding) error) error {
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return &fs.PathError{Op: "examine", Path: dir, Err: errors.New("it is not a directory")}
	}
	e := examination{dir: dir, Options: o, tell: tell}
	for _, check := range []func(context.Context) error{e.permissions, e.disk, e.sync, e.log} {
		if err := cmp.Or(ctx.Err(), check(ctx)); err != nil {
			return err
		}
	}
	return nil
}

type examination struct {
	dir string
	Options
	tell func(Finding) error
}

func (e *examination) found(check string, v Verdict, remedy, format string, args ...any) error {
	return e.tell(Finding{check, v, fmt.Sprintf(format, args...), remedy})
}

// permissions looks who else may read what is in the directory, and whether anything leads out of
// it.
func (e *examination) permissions(context.Context) error {
	files, open, links := 0, named{}, named{}
	err := filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a broker beside it has removed it
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files++
		switch rel, _ := filepath.Rel(e.dir, path); {
		case info.Mode()&fs.ModeSymlink != 0:
			links.add(rel)
		case info.Mode().Perm()&0o077 != 0 && !public[rel]:
			open.add(fmt.Sprintf("%s (%v)", rel, info.Mode().Perm()))
		}
		return nil
	})
	switch {
	case err != nil:
		return e.found("permissions", Bad, "run this as the user that the broker runs as", "%v", err)
	case links.count > 0:
		return e.found("permissions", Bad, "replace them by the files themselves: a start refuses the directory", "%s: symbolic links", links.String())
	case open.count > 0:
		return e.found("permissions", Warning, "a start makes it private; until then: chmod -R go-rwx "+e.dir, "others may read %s", open.String())
	}
	return e.found("permissions", Good, "", "all of %d files and directories are their owner's alone", files)
}

// public are the files that others may read: a certificate authority is there to be trusted.
var public = map[string]bool{"tls/ca.pem": true}

// named is a list of files, of which only the first are named.
type named struct {
	first []string
	count int
}

func (n *named) add(name string) {
	if n.count++; len(n.first) < mostNamed {
		n.first = append(n.first, name)
	}
}

func (n *named) String() string {
	text := ""
	for i, name := range n.first {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%+q", name)
	}
	if more := n.count - len(n.first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (e *examination) disk(context.Context) error {
	space, err := disk.OS{}.Free(e.dir)
	if err != nil {
		return e.found("disk", Bad, "", "how much room there is cannot be found out: %v", err)
	}
	v, remedy := Good, ""
	switch {
	case space.Free < leastFree:
		v, remedy = Bad, "make room: a broker refuses sends"
	case space.Free < fewFree || space.Free < space.Total/20:
		v, remedy = Warning, "make room, or let history go: docs/guide/disk.md"
	}
	return e.found("disk", v, remedy, "%s of %s are free", size(space.Free), size(space.Total))
}

// size is a number of bytes for people.
func size(n int64) string {
	for _, unit := range []string{"bytes", "KiB", "MiB", "GiB"} {
		if n < 10_000 {
			return fmt.Sprintf("%d %s", n, unit)
		}
		n >>= 10
	}
	return fmt.Sprintf("%d TiB", n)
}

// log has every checksum compared and every event replayed, as log verify does, and looks at the
// clock by what is newest in the log.
func (e *examination) log(context.Context) error {
	v := verified{examination: e}
	report, err := tools.Verify(&v, e.dir, tools.VerifyOptions{JSON: true, Beside: e.Beside})
	switch {
	case errors.Is(err, log.ErrFormat):
		return e.found("log", Bad, "take the version that wrote it", "%v", err)
	case err != nil:
		return e.found("log", Bad, "", "it cannot be read: %v", err)
	}
	if report.Places > 0 {
		err = e.found("log", Bad, "ledgerbus log verify "+e.dir+" names each place; docs/guide/operating.md", "%d damaged places, the first one: %s", report.Places, v.damage)
	} else {
		err = e.found("log", Good, "", "%d frames, %d records, %s, each checksum is right", report.Frames, report.Records, size(report.Bytes))
	}
	if err == nil && report.Tail > 0 {
		err = e.found("log", Good, "", "%s behind the end are no whole frames: the next start cuts them off, nobody was promised them", size(report.Tail))
	}
	switch {
	case err != nil:
		return err
	case report.Places > 0:
		err = e.found("replay", Bad, "", "the good part of the log was replayed; %d partitions are refused", len(report.Refused))
	case len(report.Discarded) > 0:
		err = e.found("replay", Warning, "the next start replays more, and makes new ones", "%d records were replayed, and %s; %d stored states or notes cannot be used: %s", report.Records, told(report.States), len(report.Discarded), report.Discarded[0].Reason)
	default:
		err = e.found("replay", Good, "", "%d records were replayed, and %s", report.Records, told(report.States))
	}
	if err != nil {
		return err
	}
	return e.clock(v.newest)
}

// told says what a replay came to, by how many stored states it was compared with.
func told(states int) string {
	switch states {
	case 0:
		return "there is no stored state to compare them with"
	case 1:
		return "are what the hash of 1 stored state says"
	}
	return fmt.Sprintf("are what the hashes of %d stored states say", states)
}

// verified reads what [tools.Verify] prints.
type verified struct {
	*examination
	newest time.Time
	damage string // the first
}

func (v *verified) Write(line []byte) (int, error) {
	var says struct {
		Found, Newest, File, Reason string
		Byte                        uint64
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &says); err != nil {
		return 0, err
	}
	if at, err := time.Parse(time.RFC3339Nano, says.Newest); err == nil && at.After(v.newest) {
		v.newest = at
	}
	if says.Found == "damage" && v.damage == "" {
		v.damage = fmt.Sprintf("file %+q byte %d: %+q", says.File, says.Byte, says.Reason)
	}
	return len(line), nil
}

// clock compares the machine's with the newest record, by the rules of a start.
func (e *examination) clock(newest time.Time) error {
	now := e.Now()
	text := now.UTC().Format(time.RFC3339)
	if newest.IsZero() || newest.Year() <= 1970 {
		return e.found("clock", Good, "", "it says %s; the log has nothing to compare it with", text)
	}
	const remedy = "set the clock; docs/guide/operating.md says how a start goes on without"
	switch ahead := now.Sub(newest); {
	case ahead < -maxBehind:
		return e.found("clock", Bad, remedy, "it says %s, %v before the newest record: a start is refused", text, -ahead.Round(time.Second))
	case ahead > maxGap:
		return e.found("clock", Bad, remedy, "it says %s, %v after the newest record: a start is refused", text, ahead.Round(time.Hour))
	case ahead < 0:
		return e.found("clock", Warning, "look whether the clock is right", "it says %s, %v before the newest record", text, -ahead.Round(time.Millisecond))
	case ahead > notable:
		return e.found("clock", Good, "", "it says %s; the newest record is %v older", text, ahead.Round(time.Minute))
	}
	return e.found("clock", Good, "", "it says %s, and the newest record is of the last minutes", text)
}
