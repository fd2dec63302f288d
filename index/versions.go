package index

import "sync/atomic"

// version numbers the states between two snapshots. Everything that a snapshot may share with the
// index has the version in which it was made. The owner changes in place what no open snapshot can
// see, and copies everything else first.
type version uint32

// versions decides what may be changed.
type versions struct {
	now version // version of everything that is made now
	// version of the newest open snapshot, which sees everything up to it; 0: there is none
	frozen version
	// bytes copied so far because a snapshot sees them; others read it
	copied atomic.Int64
}

// isOwned reports whether data that was made in a version may be changed in place.
func (v *versions) isOwned(made version) bool { return made > v.frozen }
