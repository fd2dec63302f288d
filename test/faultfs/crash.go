package faultfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Crash returns the disk as it may be found after the process, or the power, is gone. The old FS
// answers every call with ErrCrashed from now on; what it held is not shared with the new one.
func (f *FS) Crash(rng *rand.Rand, mode Mode) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = true
	c := New()
	if mode == Kill {
		c.root = f.root.clone(map[*node]*node{})
	} else {
		l := loser{rng: rng, done: map[*node]*node{}}
		c.root = l.lose(f.root)
	}
	return c
}

// Clone returns a copy of the disk as it is, what is unsynced staying unsynced.
func (f *FS) Clone() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := New()
	c.root = f.root.clone(map[*node]*node{})
	return c
}

func (n *node) clone(done map[*node]*node) *node {
	if n == nil {
		return nil
	}
	if c := done[n]; c != nil {
		return c
	}
	c := &node{dir: n.dir, data: slices.Clone(n.data), synced: slices.Clone(n.synced), stale: maps.Clone(n.stale)}
	done[n] = c
	if n.dir {
		c.entries, c.kept = map[string]*node{}, map[string]*node{}
		for k, e := range n.entries {
			c.entries[k] = e.clone(done)
		}
		for k, e := range n.kept {
			c.kept[k] = e.clone(done)
		}
	}
	return c
}

// loser makes the image after a power loss.
type loser struct {
	rng  *rand.Rand
	done map[*node]*node
}

func (l *loser) lose(n *node) *node {
	if c := l.done[n]; c != nil {
		return c
	}
	if !n.dir {
		current := n.data
		if len(n.stale) > 0 {
			current = n.durable()
		}
		c := &node{data: l.bytes(n.synced, current)}
		c.synced = slices.Clone(c.data)
		l.done[n] = c
		return c
	}
	c := newDir()
	l.done[n] = c
	for name, e := range l.entries(n) {
		c.entries[name] = e
	}
	c.kept = maps.Clone(c.entries)
	return c
}

// entries decides for each name whether its unsynced change was kept. The two halves of a rename go
// together: a file whose new name is lost has its old one.
func (l *loser) entries(n *node) map[string]*node {
	out := map[string]*node{}
	names := maps.Clone(n.kept)
	maps.Copy(names, n.entries)
	keepNew := map[*node]bool{} // one decision per file that moved
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := n.kept[name], n.entries[name]
		if was == is {
			out[name] = l.lose(was)
			continue
		}
		key := is
		if key == nil {
			key = was
		}
		keep, ok := keepNew[key]
		if !ok {
			keep = l.rng.IntN(2) == 0
			keepNew[key] = keep
		}
		if pick := map[bool]*node{true: is, false: was}[keep]; pick != nil {
			out[name] = l.lose(pick)
		}
	}
	return out
}

// bytes is a legal content of a file: the size anywhere between the synced and the current one,
// every sector that differs kept, old, zeroed or garbage.
func (l *loser) bytes(synced, current []byte) []byte {
	lo, hi := len(synced), len(current)
	if lo > hi {
		lo, hi = hi, lo
	}
	size := hi
	switch l.rng.IntN(4) {
	case 0:
		size = lo
	case 1:
		size = lo + l.rng.IntN(hi-lo+1)
	}
	out := make([]byte, size)
	how := l.rng.IntN(6) // some images lose everything in one way
	for at := 0; at < size; at += Sector {
		end := min(at+Sector, size)
		s, c := at < len(synced), at < len(current)
		var was, is [Sector]byte
		if s {
			copy(was[:], synced[at:min(end, len(synced))])
		}
		if c {
			copy(is[:], current[at:min(end, len(current))])
		}
		switch {
		case was == is && s && len(synced) >= end:
			copy(out[at:end], was[:])
		default:
			l.sector(out[at:end], was, is, how, min(max(len(synced)-at, 0), end-at))
		}
	}
	return out
}

// sector fills one unsynced sector. What was synced in front of the first byte that was written
// since stays: it is written again with the rest.
func (l *loser) sector(out []byte, was, is [Sector]byte, how, synced int) {
	if how >= 4 {
		how = l.rng.IntN(4)
	}
	switch how {
	case 0:
		copy(out, is[:])
		return
	case 1:
		copy(out, was[:])
	case 2:
		clear(out)
	case 3:
		for i := range out {
			out[i] = byte(l.rng.Uint32())
		}
	}
	for i := 0; i < synced && was[i] == is[i]; i++ {
		out[i] = was[i]
	}
}

// ReadFile returns a file's bytes, past all faults.
func (f *FS) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(name)
	if n == nil || n.dir {
		return nil, notExist(OpRead, name)
	}
	return slices.Clone(n.data), nil
}

// WriteFile gives a file these bytes, durably, past all faults: damage at rest. The directory must
// exist.
func (f *FS) WriteFile(name string, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parent(OpWrite, name)
	if err != nil {
		return err
	}
	n := &node{data: slices.Clone(data), synced: slices.Clone(data)}
	dir.entries[base], dir.kept[base] = n, n
	return nil
}

// Flip changes the bits of mask in one byte at rest.
func (f *FS) Flip(name string, off int64, mask byte) error {
	p, err := f.ReadFile(name)
	if err != nil {
		return err
	}
	if off < 0 || off >= int64(len(p)) {
		return fmt.Errorf("faultfs: %s has no byte %d", name, off)
	}
	p[off] ^= mask
	return f.WriteFile(name, p)
}

// TruncateFile cuts a file at rest.
func (f *FS) TruncateFile(name string, size int64) error {
	p, err := f.ReadFile(name)
	if err != nil {
		return err
	}
	return f.WriteFile(name, p[:min(size, int64(len(p)))])
}

// Swap exchanges two names at rest, files or directories.
func (f *FS) Swap(a, b string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	da, na, err := f.parent(OpRename, a)
	if err != nil {
		return err
	}
	db, nb, err := f.parent(OpRename, b)
	if err != nil {
		return err
	}
	x, y := da.entries[na], db.entries[nb]
	if x == nil || y == nil {
		return notExist(OpRename, a)
	}
	da.entries[na], da.kept[na] = y, y
	db.entries[nb], db.kept[nb] = x, x
	return nil
}

// RemoveAll removes a name and what is below it at rest.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parent(OpRemove, name)
	if err != nil {
		return err
	}
	delete(dir.entries, base)
	delete(dir.kept, base)
	return nil
}

// Files lists all files below dir, sorted.
func (f *FS) Files(dir string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	var walk func(name string, n *node)
	walk = func(name string, n *node) {
		if !n.dir {
			list = append(list, name)
			return
		}
		for _, k := range slices.Sorted(maps.Keys(n.entries)) {
			walk(filepath.Join(name, k), n.entries[k])
		}
	}
	if n := f.find(dir); n != nil {
		walk(dir, n)
	}
	return list
}
