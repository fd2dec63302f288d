// Package private keeps files and directories to their owner (reliability.md S32).
package private

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

// others is what a group and everybody else may do.
const others = fs.FileMode(0o077)

// Narrow takes away what others may do with a file or a directory. It returns the mode that was too
// wide, 0 when none was. An error says that it is as wide as before: it belongs to somebody else,
// or is on a file system that has no modes. A sticky directory is shared on purpose, and left as it
// is with ErrShared.
func Narrow(path string) (wide fs.FileMode, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	mode := info.Mode()
	if mode&others == 0 || runtime.GOOS == "windows" {
		return 0, nil
	}
	if mode&fs.ModeSticky != 0 {
		return mode.Perm(), ErrShared
	}
	if err = os.Chmod(path, mode&^others); err == nil {
		info, err = os.Stat(path)
	}
	if err == nil && info.Mode()&others != 0 { // some network file systems say yes and do nothing
		err = errors.New("the file system does not change the mode")
	}
	return mode.Perm(), err
}

// ErrShared is of a directory that everybody uses, such as /tmp.
var ErrShared = errors.New("it is shared with other users; use a separate directory for the broker")
