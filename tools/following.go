package tools

import (
	"context"

	"github.com/ledgerbus/ledgerbus/log"
)

// Following is a data directory that is looked at again and again, which a broker uses or may begin to use meanwhile. It belongs to one goroutine.
type Following struct {
	Dir   string
	store log.Store // nil: it has to be opened
}

// Look returns the directory as far as it is durable by now. What the previous look has found is not read again. The store is valid until the next look.
func (f *Following) Look(ctx context.Context) (log.Store, error) {
	if s, ok := f.store.(log.Follower); ok {
		err := s.Advance(ctx)
		if err == nil || ctx.Err() != nil {
			return f.store, err
		}
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	s, err := log.Open(ctx, f.Dir, log.Options{Shared: true})
	if err == nil {
		f.store = s
	}
	return s, err
}

// Rest is called after each look: it closes what reading has left open.
func (f *Following) Rest() {
	if s, ok := f.store.(log.Follower); ok {
		s.Rest()
	}
}

// Close gives the directory back. It can be looked at again.
func (f *Following) Close() error {
	s := f.store
	if s == nil {
		return nil
	}
	f.store = nil
	return s.Close()
}
