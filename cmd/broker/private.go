package broker

import (
	"fmt"
	"log/slog"

	"github.com/ledgerbus/ledgerbus/internal/private"
)

// narrow takes away what others may do in the data directory (reliability.md S32): they could put
// files there, or take them away. A directory that an operator made, or a volume, may be wide and
// must serve all the same, so this warns and goes on, also where the directory is somebody else's
// and cannot be changed.
func narrow(dir string) {
	wide, err := private.Narrow(dir)
	mode := fmt.Sprintf("%04o", wide)
	switch {
	case err != nil:
		slog.Warn("data directory open to other users and its mode could not be changed; set it to 0700", "path", dir, "mode", mode, "error", err)
	case wide != 0:
		slog.Warn("data directory was open to other users; its mode was set to 0700", "path", dir, "mode", mode)
	}
}
