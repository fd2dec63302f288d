package index

import "sync/atomic"

// version numbers the states between two snapshots. Everything that a snapshot may share with the
// index has the version in which it was made: the owner changes in place what no open snapshot can
// see, and copies everything else first.
type version uint32

// versions tells what may be changed.
type versions struct {
	now version // what is made now is of this one
	// of the newest snapshot that is open: it sees everything up to this one; 0: there is none
	frozen version
	// how much was copied so far because a snapshot sees it, bytes; others read it
	copied atomic.Int64
}

// isOwned reports whether something that was made in a version may be changed in place.
func (v *versions) isOwned(made version) bool { return made > v.frozen }
