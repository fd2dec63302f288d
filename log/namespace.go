package log

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// readNamespace returns the contents of namespace.json, and the tag that the other files carry.
func readNamespace(fsys disk.FS, root string, known []string) (format.Namespace, uint32, error) {
	p, err := readFile(fsys, filepath.Join(root, format.NamespaceName), format.MaxNamespace)
	if err != nil {
		return format.Namespace{}, 0, err
	}
	return format.DecodeNamespace(p, known)
}

// raise converts a directory of an older format to the current one before anything else is written
// in it (log-format.md 5.4). After a crash it has one of the two formats, and either can be opened.
func (s *store) raise() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.fault != nil || s.ns.Format == format.Directory {
		return s.fault
	}
	from := s.ns.Format
	if err := s.rewrite(s.ns.Capabilities); err != nil {
		s.fault = fmt.Errorf("%w: %s: %w", ErrPoisoned, format.NamespaceName, err)
		return s.fault
	}
	s.opts.Logger.Info("data directory format raised; older versions can no longer open it", "from", from, "to", format.Directory)
	return nil
}

// Space returns the size of the disk, its free bytes, and the number of free bytes below which it
// has little room.
func (s *store) Space() (total, free, low int64, err error) { return s.reserve.space() }

// Use implements [Store].
func (s *store) Use(capability string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.opts.ReadOnly:
		return ErrReadOnly
	case s.closed:
		return ErrClosed
	case !slices.Contains(s.opts.Capabilities, capability):
		return fmt.Errorf("log: no capability %q", capability)
	}
	at, used := slices.BinarySearch(s.ns.Capabilities, capability)
	if used {
		return nil
	}
	if err := s.rewrite(slices.Insert(slices.Clone(s.ns.Capabilities), at, capability)); err != nil {
		return fmt.Errorf("log: first use of %q: %s: %w", capability, format.NamespaceName, err)
	}
	return nil
}

// rewrite writes namespace.json in the current format with these capabilities. The caller holds mu.
func (s *store) rewrite(capabilities []string) error {
	n := s.ns
	n.Format, n.Capabilities = format.Directory, capabilities
	if err := disk.Replace(s.fs, filepath.Join(s.root, format.NamespaceName), format.EncodeNamespace(n)); err != nil {
		return err
	}
	s.ns = n
	return nil
}
