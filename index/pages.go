package index

import (
	"slices"
	"unsafe"
)

const (
	pageBits = 8
	pageSize = 1 << pageBits
)

// pages is an array that grows at its end and is shared with snapshots page by page. The first
// change of a page that a snapshot sees copies that page and, once in a version, the list of pages.
type pages[T any] struct {
	list []*page[T]
	made version // of the list
}

type page[T any] struct {
	made   version
	values []T
}

// at returns a value, which the caller must not change.
func (p *pages[T]) at(i int) *T { return &p.list[i>>pageBits].values[i&(pageSize-1)] }

// edit returns a value that may be changed until the next snapshot.
func (p *pages[T]) edit(v *versions, i int) *T { return &p.own(v, i>>pageBits).values[i&(pageSize-1)] }

// own returns a page that may be changed.
func (p *pages[T]) own(v *versions, n int) *page[T] {
	if g := p.list[n]; v.isOwned(g.made) {
		return g
	}
	p.ownList(v)
	was := p.list[n]
	p.list[n] = &page[T]{made: v.now, values: append(make([]T, 0, cap(was.values)), was.values...)}
	v.copied.Add(int64(cap(was.values)) * int64(unsafe.Sizeof(was.values[0])))
	return p.list[n]
}

func (p *pages[T]) ownList(v *versions) {
	if !v.isOwned(p.made) {
		p.list, p.made = slices.Clone(p.list), v.now
		v.copied.Add(int64(len(p.list)) * int64(unsafe.Sizeof(p.list[0])))
	}
}

// add appends a value, which becomes number n. A snapshot that shares the list does not see values
// after its end.
func (p *pages[T]) add(v *versions, n int, value T) {
	if n&(pageSize-1) == 0 {
		if len(p.list) == 0 {
			p.made = v.now
		}
		g := &page[T]{made: v.now}
		if len(p.list) > 0 { // the first page grows, because most arrays are short
			g.values = make([]T, 0, pageSize)
		}
		p.list = append(p.list, g)
	}
	g := p.own(v, n>>pageBits)
	g.values = append(g.values, value)
}
