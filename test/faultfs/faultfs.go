// Package faultfs is a disk in memory that can lose power. It implements disk.FS: of every file it
// knows the synced and the current bytes, of every directory the synced and the current entries, so
// that [FS.Crash] can make any image that a power loss may leave (reliability.md F2). Calls are
// numbered; errors are injected, and crashes happen, by number.
//
// It knows nothing of what the files mean. Everything random comes from the generator that is
// passed in, so a seed decides a run. Its methods may be called concurrently; call numbers are then
// as random as the goroutines.
package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// Sector is the unit in which unsynced bytes are kept or lost, bytes.
const Sector = 512

// Mode is a kind of crash.
type Mode int

const (
	Kill      Mode = iota // the process dies: all that was written stays
	PowerLoss             // only what was synced is sure to stay
)

func (m Mode) String() string { return [...]string{"Kill", "PowerLoss"}[m] }

// Op names a call.
type Op string

const (
	OpCreate   Op = "create"
	OpOpen     Op = "open"
	OpEdit     Op = "edit"
	OpReadDir  Op = "readdir"
	OpStat     Op = "stat"
	OpMkdir    Op = "mkdir"
	OpRename   Op = "rename"
	OpRemove   Op = "remove"
	OpSyncDir  Op = "syncdir"
	OpLock     Op = "lock"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpSync     Op = "sync"
	OpDatasync Op = "datasync"
	OpClose    Op = "close"
	OpSize     Op = "size"
	OpAllocate Op = "allocate"
	OpFree     Op = "free"
)

// Call is a call about to happen.
type Call struct {
	N    int // from 1
	Op   Op
	Name string
}

func (c Call) String() string { return fmt.Sprintf("call %d: %s %s", c.N, c.Op, c.Name) }

// Fault is what happens instead of a call. The zero value is nothing.
type Fault struct {
	Err error
	// Short is how much of a write is done before Err, in bytes.
	Short int
	// Lies makes a sync succeed and do nothing.
	Lies bool
	// DropPages makes a sync that fails forget what was not synced: the file shows zeroes there
	// from then on.
	DropPages bool
	// CleanPages makes a sync that fails take what was not synced for written: the file goes on
	// showing it, and no later sync writes it, until it is written over.
	CleanPages bool
}

// ErrCrashed is what every call returns after the machine is gone.
var ErrCrashed = errors.New("faultfs: crashed")

// node is a file or a directory.
type node struct {
	dir bool

	data   []byte       // current
	synced []byte       // as of the last sync
	stale  map[int]bool // sectors that are taken for synced and are not

	syncing int // bytes that a sync under way looks at; 0: none is

	entries map[string]*node // current
	kept    map[string]*node // as of the last sync of the directory
}

func newDir() *node { return &node{dir: true, entries: map[string]*node{}, kept: map[string]*node{}} }

// FS is the disk.
type FS struct {
	mu      sync.Mutex
	root    *node
	locked  map[string]bool
	calls   int
	limit   int64 // bytes of all files; 0: no limit
	crashed bool
	hook    func(Call) Fault
	during  func(name string)
}

// New returns an empty disk.
func New() *FS { return &FS{root: newDir(), locked: map[string]bool{}} }

// Hook sets what is asked before every call; nil asks nobody. It must not call the FS, but for
// Stop.
func (f *FS) Hook(hook func(Call) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Limit makes the disk one of that many bytes, more than the files have: a write beyond it is done
// as far as there is room and fails with ENOSPC. 0: no limit.
func (f *FS) Limit(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = bytes
}

// Used is how many bytes all files have.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.root.size()
}

func (n *node) size() (sum int64) {
	for _, e := range n.entries {
		sum += e.size()
	}
	return sum + int64(len(n.data))
}

// During sets what is called while a Datasync goes on: what the file held before the call is synced
// when it has returned, what is written to it meanwhile is not. It may call the FS. A power loss in
// it finds nothing synced yet.
func (f *FS) During(during func(name string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.during = during
}

// Calls is the number of calls so far.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// FailAt makes the k-th call from now on fail with the fault; with forever all later ones too.
func (f *FS) FailAt(k int, fault Fault, forever bool) {
	f.mu.Lock()
	k += f.calls
	f.mu.Unlock()
	f.Hook(func(c Call) Fault {
		if c.N == k || forever && c.N > k {
			return fault
		}
		return Fault{}
	})
}

// CrashAt makes the k-th call from now on, and all later ones, fail with ErrCrashed and do nothing.
func (f *FS) CrashAt(k int) { f.FailAt(k, Fault{Err: ErrCrashed}, true) }

// begin numbers a call and says what happens to it.
func (f *FS) begin(op Op, name string) Fault {
	f.calls++
	if f.crashed {
		return Fault{Err: ErrCrashed}
	}
	if f.hook == nil {
		return Fault{}
	}
	fault := f.hook(Call{N: f.calls, Op: op, Name: name})
	if errors.Is(fault.Err, ErrCrashed) {
		f.crashed = true
	}
	if fault.Err != nil && !errors.Is(fault.Err, ErrCrashed) {
		fault.Err = &fs.PathError{Op: string(op), Path: name, Err: fault.Err}
	}
	return fault
}

func split(name string) []string {
	return strings.FieldsFunc(filepath.Clean(name), func(r rune) bool { return r == filepath.Separator })
}

func (f *FS) find(name string) *node {
	n := f.root
	for _, part := range split(name) {
		if n = n.entries[part]; n == nil {
			return nil
		}
	}
	return n
}

func notExist(op Op, name string) error {
	return &fs.PathError{Op: string(op), Path: name, Err: fs.ErrNotExist}
}

// parent finds the directory a name is in.
func (f *FS) parent(op Op, name string) (*node, string, error) {
	dir := f.find(filepath.Dir(name))
	if dir == nil || !dir.dir {
		return nil, "", notExist(op, name)
	}
	return dir, filepath.Base(name), nil
}

// Create implements disk.FS.
func (f *FS) Create(name string) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpCreate, name); fault.Err != nil {
		return nil, fault.Err
	}
	dir, base, err := f.parent(OpCreate, name)
	if err != nil {
		return nil, err
	}
	n := dir.entries[base]
	if n == nil {
		n = &node{}
		dir.entries[base] = n
	}
	n.data = nil
	return &file{fs: f, node: n, name: name}, nil
}

// Open implements disk.FS.
func (f *FS) Open(name string) (disk.File, error) { return f.open(OpOpen, name) }

// Edit implements disk.FS.
func (f *FS) Edit(name string) (disk.File, error) { return f.open(OpEdit, name) }

func (f *FS) open(op Op, name string) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(op, name); fault.Err != nil {
		return nil, fault.Err
	}
	n := f.find(name)
	if n == nil || n.dir {
		return nil, notExist(op, name)
	}
	return &file{fs: f, node: n, name: name}, nil
}

// ReadDir implements disk.FS.
func (f *FS) ReadDir(name string) ([]disk.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpReadDir, name); fault.Err != nil {
		return nil, fault.Err
	}
	n := f.find(name)
	if n == nil || !n.dir {
		return nil, notExist(OpReadDir, name)
	}
	var list []disk.Entry
	for _, k := range slices.Sorted(maps.Keys(n.entries)) {
		e := n.entries[k]
		list = append(list, disk.Entry{Name: k, Size: int64(len(e.data)), Dir: e.dir})
	}
	return list, nil
}

// Stat implements disk.FS.
func (f *FS) Stat(name string) (disk.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpStat, name); fault.Err != nil {
		return disk.Entry{}, fault.Err
	}
	n := f.find(name)
	if n == nil {
		return disk.Entry{}, notExist(OpStat, name)
	}
	return disk.Entry{Name: filepath.Base(name), Size: int64(len(n.data)), Dir: n.dir}, nil
}

// Mkdir implements disk.FS.
func (f *FS) Mkdir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpMkdir, name); fault.Err != nil {
		return fault.Err
	}
	dir, base, err := f.parent(OpMkdir, name)
	if err != nil {
		return err
	}
	if dir.entries[base] != nil {
		return &fs.PathError{Op: string(OpMkdir), Path: name, Err: fs.ErrExist}
	}
	dir.entries[base] = newDir()
	return nil
}

// Rename implements disk.FS. Both names must be in the same directory: then a power loss shows one
// of them, never both or none.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpRename, from); fault.Err != nil {
		return fault.Err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("faultfs: rename from %s to another directory", from)
	}
	dir, base, err := f.parent(OpRename, from)
	if err != nil {
		return err
	}
	n := dir.entries[base]
	if n == nil {
		return notExist(OpRename, from)
	}
	delete(dir.entries, base)
	dir.entries[filepath.Base(to)] = n
	return nil
}

// Remove implements disk.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpRemove, name); fault.Err != nil {
		return fault.Err
	}
	dir, base, err := f.parent(OpRemove, name)
	if err != nil {
		return err
	}
	n := dir.entries[base]
	if n == nil {
		return notExist(OpRemove, name)
	}
	if len(n.entries) > 0 {
		return fmt.Errorf("faultfs: %s is not empty", name)
	}
	delete(dir.entries, base)
	return nil
}

// SyncDir implements disk.FS.
func (f *FS) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpSyncDir, name); fault.Err != nil {
		return fault.Err
	}
	n := f.find(name)
	if n == nil || !n.dir {
		return notExist(OpSyncDir, name)
	}
	n.kept = maps.Clone(n.entries)
	return nil
}

// OpenDir opens a directory, for its names to be exchanged.
func (f *FS) OpenDir(name string) (disk.Dir, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpOpen, name); fault.Err != nil {
		return nil, fault.Err
	}
	if n := f.find(name); n == nil || !n.dir {
		return nil, notExist(OpOpen, name)
	}
	return &folder{f, name}, nil
}

type folder struct {
	fs   *FS
	name string
}

// Exchange implements disk.Dir. A power loss may undo it for either name: then both names lead to
// one file.
func (d *folder) Exchange(a, b string) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if fault := d.fs.begin(OpRename, filepath.Join(d.name, a)); fault.Err != nil {
		return fault.Err
	}
	n := d.fs.find(d.name)
	if n == nil || n.entries[a] == nil || n.entries[b] == nil {
		return notExist(OpRename, filepath.Join(d.name, a))
	}
	n.entries[a], n.entries[b] = n.entries[b], n.entries[a]
	return nil
}

// Sync implements disk.Dir.
func (d *folder) Sync() error { return d.fs.SyncDir(d.name) }

// Close implements disk.Dir.
func (d *folder) Close() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	return d.fs.begin(OpClose, d.name).Err
}

// Lock implements disk.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpLock, name); fault.Err != nil {
		return nil, fault.Err
	}
	if f.locked[name] {
		return nil, disk.ErrInUse
	}
	dir, base, err := f.parent(OpLock, name)
	if err != nil {
		return nil, err
	}
	if dir.entries[base] == nil {
		dir.entries[base] = &node{}
	}
	f.locked[name] = true
	return unlock(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.locked, name)
	}), nil
}

// Free implements disk.FS. A disk without a limit has room for an exabyte.
func (f *FS) Free(dir string) (disk.Space, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.begin(OpFree, dir); fault.Err != nil {
		return disk.Space{}, fault.Err
	}
	total := int64(1 << 60)
	if f.limit > 0 {
		total = f.limit
	}
	return disk.Space{Total: total, Free: max(0, total-f.root.size())}, nil
}

type unlock func()

func (u unlock) Close() error { u(); return nil }
