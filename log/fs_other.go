//go:build !linux

package log

// Datasync implements [File]. Sync reaches the medium on every system: on macOS it is F_FULLFSYNC.
func (f osFile) Datasync() error { return f.Sync() }
