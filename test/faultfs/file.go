package faultfs

import (
	"bytes"
	"io"
	"io/fs"
	"slices"
	"syscall"
)

type file struct {
	fs   *FS
	node *node
	name string
	at   int // where Write goes on
}

// ReadAt implements disk.File.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if fault := f.fs.begin(OpRead, f.name); fault.Err != nil {
		return 0, fault.Err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements disk.File.
func (f *file) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.put(p, f.at)
	f.at += n
	return n, err
}

// WriteAt implements disk.File.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.put(p, int(off))
}

// Allocate implements disk.File: what it makes room for reads as zeroes.
func (f *file) Allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	at := len(f.node.data)
	_, err := f.putAs(OpAllocate, make([]byte, max(0, int(size)-at)), at)
	return err
}

func (f *file) put(p []byte, at int) (int, error) { return f.putAs(OpWrite, p, at) }

func (f *file) putAs(op Op, p []byte, at int) (n int, err error) {
	n = len(p)
	if fault := f.fs.begin(op, f.name); fault.Err != nil {
		n, err = min(fault.Short, n), fault.Err
	}
	d := f.node
	if more := at + n - len(d.data); f.fs.limit > 0 && more > 0 {
		if over := f.fs.root.size() + int64(more) - f.fs.limit; over > 0 {
			n, err = max(0, n-int(over)), &fs.PathError{Op: string(op), Path: f.name, Err: syscall.ENOSPC}
		}
	}
	for s := at / Sector; len(d.stale) > 0 && s*Sector < at+n; s++ {
		delete(d.stale, s)
	}
	if at < max(len(d.synced), d.syncing) { // the array is shared with them
		d.data = slices.Clone(d.data)
	}
	if end := at + n; end > len(d.data) {
		d.data = append(d.data, make([]byte, end-len(d.data))...)
	}
	copy(d.data[at:], p[:n])
	return n, err
}

// Truncate implements disk.File. It only makes files shorter.
func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if fault := f.fs.begin(OpTruncate, f.name); fault.Err != nil {
		return fault.Err
	}
	f.node.data = slices.Clone(f.node.data[:size])
	return nil
}

// Sync implements disk.File.
func (f *file) Sync() error { return f.sync(OpSync) }

// Datasync implements disk.File.
func (f *file) Datasync() error { return f.sync(OpDatasync) }

func (f *file) sync(op Op) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := f.node
	fault := f.fs.begin(op, f.name)
	// the array is shared until something in it is written over
	data := n.data[:len(n.data):len(n.data)]
	if during := f.fs.during; during != nil && op == OpDatasync && !f.fs.crashed {
		n.syncing = len(data)
		f.fs.mu.Unlock()
		during(f.name)
		f.fs.mu.Lock()
		n.syncing = 0
		if f.fs.crashed {
			return ErrCrashed
		}
	}
	if fault.Err != nil {
		if fault.DropPages {
			data := make([]byte, len(n.data))
			copy(data, n.synced)
			n.data = data
		}
		if fault.CleanPages {
			n.takeForClean()
		}
		return fault.Err
	}
	if fault.Lies {
		return nil
	}
	if len(n.stale) > 0 {
		n.synced = n.durable()
		return nil
	}
	n.synced = data
	return nil
}

// takeForClean makes every sector that is not synced one that no sync will write.
func (n *node) takeForClean() {
	if n.stale == nil {
		n.stale = map[int]bool{}
	}
	for at := 0; at < len(n.data); at += Sector {
		end := min(at+Sector, len(n.data))
		if end > len(n.synced) || !bytes.Equal(n.data[at:end], n.synced[at:end]) {
			n.stale[at/Sector] = true
		}
	}
}

// durable is what is on the disk once everything was written that is not taken for written already.
func (n *node) durable() []byte {
	data := slices.Clone(n.data)
	for s := range n.stale {
		if at := s * Sector; at < len(data) {
			end := min(at+Sector, len(data))
			clear(data[at:end])
			copy(data[at:end], n.synced[min(at, len(n.synced)):])
		}
	}
	return data
}

// Size implements disk.File.
func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if fault := f.fs.begin(OpSize, f.name); fault.Err != nil {
		return 0, fault.Err
	}
	return int64(len(f.node.data)), nil
}

// Close implements disk.File.
func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.fs.begin(OpClose, f.name).Err
}
