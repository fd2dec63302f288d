package log

import (
	"container/list"
	"path/filepath"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// fileCache keeps segments open for reading and closes the least recently used ones first.
type fileCache struct {
	limit int

	mu     sync.Mutex // guards the fields below
	open   map[*segment]*list.Element
	recent list.List // of *openFile, newest first
}

type openFile struct {
	seg *segment
	content
	refs int // readers, and one for the cache
}

// get returns the content of a segment; done releases it. It waits no longer than [disk.OpenSoon]
// does for a descriptor.
func (c *fileCache) get(fsys disk.FS, dir string, s *segment) (*openFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.find(s); f != nil {
		return f, nil
	}
	c.mu.Unlock() // meanwhile other goroutines read files that are open
	file, err := s.kind.open(func(path string) (disk.File, error) {
		return disk.OpenSoon(fsys, filepath.Join(dir, path), c.closeIdle)
	})
	c.mu.Lock()
	if err != nil {
		return nil, err
	}
	if f := c.find(s); f != nil { // another goroutine was faster
		file.Close()
		return f, nil
	}
	f := &openFile{seg: s, content: file, refs: 2}
	if c.open == nil {
		c.open = make(map[*segment]*list.Element)
	}
	c.open[s] = c.recent.PushFront(f)
	for c.recent.Len() > c.limit {
		c.evict(c.recent.Back())
	}
	return f, nil
}

// find returns the file if it is open.
func (c *fileCache) find(s *segment) *openFile {
	e, ok := c.open[s]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	f := e.Value.(*openFile)
	f.refs++
	return f
}

// closeIdle closes the file that has been unread for the longest time and reports whether there was
// one.
func (c *fileCache) closeIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		if e.Value.(*openFile).refs == 1 {
			c.evict(e)
			return true
		}
	}
	return false
}

func (c *fileCache) done(f *openFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(f)
}

func (c *fileCache) release(f *openFile) {
	if f.refs--; f.refs == 0 {
		f.content.Close() // read only: nothing can be lost
	}
}

func (c *fileCache) evict(e *list.Element) {
	f := c.recent.Remove(e).(*openFile)
	delete(c.open, f.seg)
	c.release(f)
}

// drop closes segments that are no longer needed, or leaves that to their readers.
func (c *fileCache) drop(gone []*segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range gone {
		if e, ok := c.open[s]; ok {
			c.evict(e)
		}
	}
}

// closeAll closes the files that no goroutine reads, and keeps none open from now on.
func (c *fileCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = 0
	for c.recent.Len() > 0 {
		c.evict(c.recent.Back())
	}
}
