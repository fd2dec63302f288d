package broker

import (
	"fmt"
	"log/slog"

	"github.com/ledgerbus/ledgerbus/internal/private"
)

// restrictMode removes other users' write access to the data directory (reliability.md S32): they
// could add or delete files. A directory made by an operator, or a volume, may have a wide mode and
// must still work. So restrictMode only logs a warning, also if another user owns the directory and
// its mode cannot be changed.
func restrictMode(dir string) {
	wide, err := private.Narrow(dir)
	mode := fmt.Sprintf("%04o", wide)
	switch {
	case err != nil:
		slog.Warn("data directory open to other users and its mode could not be changed; set it to 0700", "path", dir, "mode", mode, "error", err)
	case wide != 0:
		slog.Warn("data directory was open to other users; its mode was set to 0700", "path", dir, "mode", mode)
	}
}
