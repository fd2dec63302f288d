//go:build !linux

package disk

import "errors"

// Exchange implements [Dir].
func (osDir) Exchange(_, _ string) error { return errors.ErrUnsupported }

// Datasync implements [File]. Sync reaches the medium on every system: on macOS it is F_FULLFSYNC.
func (f osFile) Datasync() error { return f.Sync() }
