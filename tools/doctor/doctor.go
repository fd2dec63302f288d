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

// A Verdict rates a finding.
type Verdict string

const (
	Good    Verdict = "ok"
	Warning Verdict = "warning" // works, but needs attention
	Bad     Verdict = "bad"     // a broker does not start, loses data or refuses requests
)

// A Finding is the result of a check.
type Finding struct {
	Check   string // permissions, disk, sync, log, replay, clock
	Verdict Verdict
	Text    string // the result in one line
	Remedy  string // the action to take; "": none
}

// Options select the checks.
type Options struct {
	tools.Beside
	Now  func() time.Time // the wall clock
	Sync time.Duration    // duration of each sync measurement
}

// Thresholds of the verdicts.
const (
	slowSync  = 10 * time.Millisecond
	lateSync  = 100 * time.Millisecond // p99
	quickSync = 15 * time.Microsecond
	fewFree   = 1 << 30  // bytes
	leastFree = 16 << 20 // less is too little for the reserve of a start
	mostNamed = 3        // files with the same defect

	// limits of a start (reliability.md 1.4)
	maxBehind = time.Hour
	notable   = 10 * time.Minute
	maxGap    = 400 * 24 * time.Hour
)

// Examine checks a data directory and reports each finding. It returns an error only if the
// directory cannot be examined, for example because it does not exist.
func Examine(ctx context.Context, dir string, o Options, tell func(Finding) error) error {
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return &fs.PathError{Op: "examine", Path: dir, Err: errors.New("not a directory")}
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

// permissions checks which other users can read the directory, and whether a link leads out of it.
func (e *examination) permissions(context.Context) error {
	files, open, links := 0, fileList{}, fileList{}
	err := filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a running broker has removed it
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
		case info.Mode().Perm()&0o077 != 0 && !publicFiles[rel]:
			open.add(fmt.Sprintf("%s (%v)", rel, info.Mode().Perm()))
		}
		return nil
	})
	switch {
	case err != nil:
		return e.found("permissions", Bad, "run doctor as the broker's user", "%v", err)
	case links.count > 0:
		return e.found("permissions", Bad, "replace them with the files: a start refuses the directory", "symbolic links: %s", links.String())
	case open.count > 0:
		return e.found("permissions", Warning, "run chmod -R go-rwx "+e.dir+"; the next start also makes it private", "other users can read %s", open.String())
	}
	return e.found("permissions", Good, "", "only the owner can access the %d files and directories", files)
}

// publicFiles are the files that others may read. A certificate authority is made to be trusted.
var publicFiles = map[string]bool{"tls/ca.pem": true}

// A fileList is a list of files. It names only the first ones.
type fileList struct {
	first []string
	count int
}

func (n *fileList) add(name string) {
	if n.count++; len(n.first) < mostNamed {
		n.first = append(n.first, name)
	}
}

func (n *fileList) String() string {
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
		return e.found("disk", Bad, "", "unknown free space: %v", err)
	}
	v, remedy := Good, ""
	switch {
	case space.Free < leastFree:
		v, remedy = Bad, "free disk space: a broker rejects sends"
	case space.Free < fewFree || space.Free < space.Total/20:
		v, remedy = Warning, "free disk space, or keep less history: docs/guide/disk.md"
	}
	return e.found("disk", v, remedy, "%s of %s free", size(space.Free), size(space.Total))
}

// size formats a number of bytes.
func size(n int64) string {
	for _, unit := range []string{"bytes", "KiB", "MiB", "GiB"} {
		if n < 10_000 {
			return fmt.Sprintf("%d %s", n, unit)
		}
		n >>= 10
	}
	return fmt.Sprintf("%d TiB", n)
}

// log compares every checksum and replays every event, as log verify does. It checks the clock
// against the newest record.
func (e *examination) log(context.Context) error {
	v := verifyOutput{examination: e}
	report, err := tools.Verify(&v, e.dir, tools.VerifyOptions{JSON: true, Beside: e.Beside})
	switch {
	case errors.Is(err, log.ErrFormat):
		return e.found("log", Bad, "use the version that wrote it", "%v", err)
	case err != nil:
		return e.found("log", Bad, "", "cannot be read: %v", err)
	}
	if report.Places > 0 {
		err = e.found("log", Bad, "list each place with ledgerbus log verify "+e.dir+"; docs/guide/operating.md", "%d damaged places, first: %s", report.Places, v.damage)
	} else {
		err = e.found("log", Good, "", "%d frames, %d records, %s, all checksums correct", report.Frames, report.Records, size(report.Bytes))
	}
	if err == nil && report.Tail > 0 {
		err = e.found("log", Good, "", "%s at the end are not complete frames and were never acknowledged; the next start cuts them off", size(report.Tail))
	}
	switch {
	case err != nil:
		return err
	case report.Places > 0:
		err = e.found("replay", Bad, "", "replayed the intact part of the log; %d partitions refused", len(report.Refused))
	case len(report.Discarded) > 0:
		err = e.found("replay", Warning, "the next start replays more records and creates new ones", "replayed %d records; %s; %d stored states or notes are unusable: %s", report.Records, replayResult(report.States), len(report.Discarded), report.Discarded[0].Reason)
	default:
		err = e.found("replay", Good, "", "replayed %d records; %s", report.Records, replayResult(report.States))
	}
	if err != nil {
		return err
	}
	return e.clock(v.newest)
}

// replayResult describes the result of a replay, by the number of stored states that it was
// compared with.
func replayResult(states int) string {
	switch states {
	case 0:
		return "no stored state to compare with"
	case 1:
		return "the result matches the hash of 1 stored state"
	}
	return fmt.Sprintf("the result matches the hashes of %d stored states", states)
}

// A verifyOutput collects the output of [tools.Verify].
type verifyOutput struct {
	*examination
	newest time.Time
	damage string // the first damaged place
}

func (v *verifyOutput) Write(line []byte) (int, error) {
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

// clock compares the machine's clock with the newest record, by the rules of a start.
func (e *examination) clock(newest time.Time) error {
	now := e.Now()
	text := now.UTC().Format(time.RFC3339)
	if newest.IsZero() || newest.Year() <= 1970 {
		return e.found("clock", Good, "", "shows %s; the log contains no time to compare with", text)
	}
	const remedy = "set the clock, or see docs/guide/operating.md to start without"
	switch ahead := now.Sub(newest); {
	case ahead < -maxBehind:
		return e.found("clock", Bad, remedy, "shows %s, %v before the newest record; a start is refused", text, -ahead.Round(time.Second))
	case ahead > maxGap:
		return e.found("clock", Bad, remedy, "shows %s, %v after the newest record; a start is refused", text, ahead.Round(time.Hour))
	case ahead < 0:
		return e.found("clock", Warning, "check the clock", "shows %s, %v before the newest record", text, -ahead.Round(time.Millisecond))
	case ahead > notable:
		return e.found("clock", Good, "", "shows %s; the newest record is %v older", text, ahead.Round(time.Minute))
	}
	return e.found("clock", Good, "", "shows %s; the newest record is from the last minutes", text)
}
