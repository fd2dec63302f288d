// Package private restricts files and directories to their owner (reliability.md S32).
package private

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

// others are the permissions of the group and of other users.
const others = fs.FileMode(0o077)

// Narrow removes the permissions of others from a file or a directory. It returns the mode that was
// too wide, 0 if none was. After an error it is as wide as before: it belongs to another user, or
// is on a file system without modes. A sticky directory is shared on purpose, and left as it is
// with ErrShared.
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
	if err == nil && info.Mode()&others != 0 { // some network file systems only claim success
		err = errors.New("the file system does not change the mode")
	}
	return mode.Perm(), err
}

// ErrShared says that a directory is shared by all users, such as /tmp.
var ErrShared = errors.New("it is shared with other users; use a separate directory for the broker")
