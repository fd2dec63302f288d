//go:build !linux

package floor

import "os"

// fdatasync makes a file durable.
func fdatasync(f *os.File) error { return f.Sync() }
