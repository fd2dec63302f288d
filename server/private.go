package server

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
)

// narrow takes away what others may do in the data directory (reliability.md S32): they could put files there, or take them away. A
// directory that an operator made, or a volume, may be wide and must serve all the same, so this warns and goes on, also where the
// directory is somebody else's and cannot be changed. One that everybody uses, such as /tmp, is left alone.
func narrow(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	const others = fs.FileMode(0o077)
	mode := info.Mode()
	if mode&others == 0 || runtime.GOOS == "windows" {
		return nil
	}
	old := fmt.Sprintf("%04o", mode.Perm())
	if mode&fs.ModeSticky != 0 {
		slog.Warn("the data directory is open to other users and shared with them; give the broker one of its own", "path", dir, "mode", old)
		return nil
	}
	err = os.Chmod(dir, mode&^others)
	if err == nil {
		info, err = os.Stat(dir)
	}
	if err == nil && info.Mode()&others != 0 { // some network file systems say yes and do nothing
		err = fs.ErrInvalid
	}
	if err != nil {
		slog.Warn("the data directory is open to other users and cannot be narrowed; make its mode 0700", "path", dir, "mode", old, "error", err)
		return nil
	}
	slog.Warn("the data directory was open to other users; its mode is 0700 now", "path", dir, "mode", old)
	return nil
}
