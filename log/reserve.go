package log

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// Room is how much room there is for a data directory (docs/decisions/0039). Higher values mean
// less room.
type Room uint8

const (
	RoomEnough Room = iota
	// less is free than [Options.LowBytes]: operations that make the log grow permanently should be
	// refused
	RoomLow
	RoomCritical // only the reserve is left: operations that can wait should be refused
	RoomNone     // the reserve is used up as well: writes wait
)

func (r Room) String() string { return [...]string{"enough", "low", "critical", "none"}[r] }

const (
	ballastName = "ballast"
	// smallestShare limits the reserve to one in smallestShare bytes of a small disk. The shares
	// below are used in the same way.
	smallestShare = 8
	// lastShare is the part of the reserve for frames that were already accepted. When no more than
	// that is left, there is no room.
	lastShare = 8
	// pieceShare is the part of the reserve that is released at a time, at least.
	pieceShare = 16
	// startBytes is what a start needs for each partition: a segment file, a manifest, notes, and
	// temporarily the copy of a tail.
	startBytes = 1 << 20
	// lookEvery is the minimum interval between two queries of the disk's free space.
	lookEvery = time.Second / 2
)

// reserve keeps room on the disk with a file, the ballast, for when the disk is full: settlements
// are written in the room that it frees. When there is room, the reserve is refilled before
// anything else. The file's contents mean nothing, and it may be missing.
type reserve struct {
	// set once in open
	fs       disk.FS
	dir      string
	logger   *slog.Logger
	now      func() time.Time
	low      int64 // bytes
	critical int64 // bytes
	want     int64 // size of the whole reserve, bytes

	state   atomic.Pointer[roomSince] // nil: enough
	waiting atomic.Int32              // writers that have found no room

	mu      sync.Mutex // guards the fields below
	opened  bool
	file    disk.File // nil: there is none
	has     int64
	dropped bool // it was removed, because it could not be truncated; it is made again
	failed  bool // a write found no room since the reserve was whole
	free    disk.Space
	looked  time.Time
}

// roomSince is a state, and when the disk entered it.
type roomSince struct {
	room  Room
	since time.Time
}

// is returns the state, and when the disk entered it.
func (r *reserve) is() roomSince {
	if s := r.state.Load(); s != nil {
		return *s
	}
	return roomSince{}
}

// room returns how much room there is, as far as is known.
func (r *reserve) room() Room { return r.is().room }

// open makes the reserve, or as much of it as fits on the disk. From an existing ballast it frees
// the room that a start needs. It is called before the first write of a run; later calls do
// nothing.
func (r *reserve) open(o *Options, partitions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened {
		return
	}
	r.opened, r.logger, r.now = true, o.Logger, o.Now
	name := filepath.Join(r.dir, ballastName)
	if o.ReserveBytes <= 0 && o.LowBytes <= 0 {
		return
	}
	var err error
	if r.free, err = r.fs.Free(r.dir); err != nil {
		r.logger.Warn("free disk space unknown; no disk reserve", "error", err)
		return
	}
	r.want, r.low = max(0, o.ReserveBytes), o.LowBytes
	if small := r.free.Total / smallestShare; small < r.want {
		r.logger.Warn("disk too small for the whole reserve", "wanted", r.want, "reserve", small, "disk", r.free.Total)
		r.want = small
	}
	if r.low == 0 {
		r.low = min(r.free.Total/20, 1<<30)
	}
	r.critical = min(r.low/4, r.want)
	if r.want > 0 {
		err = r.take(name, startBytes*int64(partitions))
	}
	if err != nil {
		r.logger.Warn("no disk reserve", "path", name, "error", err)
		r.want, r.critical = 0, r.low/4
	}
	r.fill()
	r.judge()
}

// take opens the ballast, and truncates it if there is less room than a start needs.
func (r *reserve) take(name string, need int64) (err error) {
	r.file, err = r.fs.Edit(name)
	if errors.Is(err, fs.ErrNotExist) {
		r.file, err = r.fs.Create(name)
	}
	if err != nil {
		r.file = nil
		return err
	}
	if r.has, err = r.file.Size(); err != nil {
		return err
	}
	if size := max(0, min(r.has, r.want, r.has-(need-r.free.Free))); size < r.has {
		r.cut(size)
	}
	return nil
}

// cut truncates the ballast to size. It syncs the file, because file systems release its room only
// after they have recorded the new size.
func (r *reserve) cut(size int64) bool {
	err := r.file.Truncate(size)
	if disk.Full(err) {
		return r.drop()
	}
	if err == nil {
		r.has = size
		err = r.file.Sync()
	}
	if err != nil { // it holds no acknowledged data
		r.logger.Warn("the reserve gives no room", "error", err)
	}
	return r.has == size
}

// drop removes the ballast, which frees all of it at once. It is the last resort on file systems
// that copy a file to truncate it, when there is no room for the copy. They keep some room for
// removing files.
func (r *reserve) drop() bool {
	r.file.Close()
	r.file, r.has, r.dropped = nil, 0, true
	err := r.fs.Remove(filepath.Join(r.dir, ballastName))
	if err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	if err != nil {
		r.logger.Warn("the reserve gives no room", "error", err)
	}
	return err == nil
}

// give frees room for a write that found none, and reports whether it could.
func (r *reserve) give(need int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.ask()
	piece := max(r.want/pieceShare, need+need/8)
	given := r.file != nil && r.has > 0 && r.cut(max(0, r.has-piece))
	r.judge()
	return given
}

// wait counts the writers that have found no room even in the reserve.
func (r *reserve) wait(more int32) {
	r.waiting.Add(more)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge()
}

// look asks the disk for its free space, unless that was just done, and refills the reserve.
func (r *reserve) look() {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	now := r.now()
	if !r.opened || now.Sub(r.looked) < lookEvery && now.After(r.looked) {
		return
	}
	r.looked = now
	r.ask()
	r.fill()
	r.judge()
}

// ask asks the disk for its free space. If the disk does not answer, the last value is kept.
func (r *reserve) ask() {
	if r.low == 0 {
		return
	}
	if space, err := r.fs.Free(r.dir); err == nil {
		r.free = space
	}
}

// fill makes the reserve whole if enough room stays free. After a write that found no room the
// reported free space does not count, because there may be a quota. Then it must be possible to
// allocate as much again.
func (r *reserve) fill() {
	if r.file == nil && (!r.dropped || !r.recreate()) {
		r.failed = r.failed && (r.waiting.Load() > 0 || r.dropped)
		return
	}
	if lacks := r.want - r.has; lacks > 0 && r.free.Free >= lacks+r.critical {
		if err := r.file.Allocate(r.want); err != nil {
			r.cut(r.has)
			return
		}
		r.has, r.free.Free = r.want, r.free.Free-lacks
	}
	if r.failed && r.has == r.want && r.waiting.Load() == 0 {
		r.failed = r.file.Allocate(r.want+r.critical) != nil
		r.cut(r.want)
	}
}

// recreate makes an empty ballast after it was dropped, and reports whether it could.
func (r *reserve) recreate() bool {
	f, err := r.fs.Create(filepath.Join(r.dir, ballastName))
	if err != nil {
		return false
	}
	r.file, r.has, r.dropped = f, 0, false
	return true
}

// judge computes the state, and logs it when it changes. A state ends with slightly more free space
// than it begins with, so that it does not flap.
func (r *reserve) judge() {
	was, is := r.room(), RoomEnough
	over := func(limit int64, state Room) bool {
		if was >= state {
			limit += limit / 8
		}
		return r.free.Free < limit
	}
	switch {
	case r.waiting.Load() > 0 || r.want > 0 && r.has+r.free.Free <= r.want/lastShare:
		is = RoomNone
	case r.failed && r.want > 0 || r.has < r.want || over(r.critical, RoomCritical):
		is = RoomCritical
	case over(r.low, RoomLow):
		is = RoomLow
	}
	if is == was {
		return
	}
	now := r.now()
	told := []any{"was", was.String(), "for", r.stateAge(now), "free", r.free.Free, "reserve", r.has, "low", r.low}
	r.state.Store(&roomSince{is, now})
	switch is {
	case RoomEnough:
		r.logger.Info("disk has room again; all requests are accepted", told...)
	case RoomLow:
		r.logger.Warn("disk nearly full; sends are refused, settlements continue", told...)
	case RoomCritical:
		r.logger.Error("disk full; requests that grow the log are refused, settlements continue from the reserve", told...)
	case RoomNone:
		r.logger.Error("disk and reserve full; all writes are refused, accepted requests wait for room", told...)
	}
}

// stateAge returns how long the current state has lasted.
func (r *reserve) stateAge(now time.Time) time.Duration {
	if s := r.is(); !s.since.IsZero() {
		return now.Sub(s.since)
	}
	return 0 // since the start
}

// close closes the ballast.
func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// space returns the size of the disk, its free bytes, and the number of free bytes below which it
// has little room.
func (r *reserve) space() (total, free, low int64, err error) {
	space, err := r.fs.Free(r.dir)
	r.mu.Lock()
	defer r.mu.Unlock()
	return space.Total, space.Free, r.low, err
}
