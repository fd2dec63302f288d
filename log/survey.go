package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Survey is a check of a damaged directory. A start stops at the first damaged place of a partition
// and refuses with it. A survey is the same walk, but continues after the place and names every one
// (log-format.md 5.6). In a partition that a start accepts, it finds damage only in sealed files,
// of which a start reads only the ends. In any other, its first place is the one that a start
// refuses with. It writes nothing and holds no more of a log in memory than a start.
type Survey struct {
	fs    disk.FS
	root  string
	boot  string
	known []string // capabilities
	share bool     // a broker may use the directory meanwhile
	lock  io.Closer
	tag   *uint32       // nil: unknown, so that each partition's manifest says it
	ends  []format.Mark // from the clean marker; nil without a good one
	ids   []PartitionID
}

// SurveyResult is what a survey found in a partition besides the damaged places.
type SurveyResult struct {
	Frames, Records uint64           // good ones
	Bytes           int64            // of them
	Checkpoints     []CheckpointInfo // checkpoints that may belong to this log, newest first
	Discarded       []Discard        // bad checkpoints and notes
}

// OpenSurvey opens a directory that is not in use, or shares it. A damaged or lost namespace.json
// or clean marker, which [Open] reports, does not stop it: the survey does without it. Of the
// options only FS, BootID, Capabilities and Shared count.
func OpenSurvey(dir string, opts Options) (*Survey, error) {
	opts.ReadOnly = true
	dir, opts, err := opts.at(dir)
	if err != nil {
		return nil, err
	}
	s := &Survey{fs: opts.FS, root: dir, boot: opts.BootID, known: opts.Capabilities, share: opts.Shared}
	if s.lock, err = opts.take(s.fs, dir); err != nil {
		return nil, lockError(dir, err)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("log: %w", err), s.lock.Close())
	}
	return s, nil
}

func (s *Survey) open() error {
	ns, tag, err := readNamespace(s.fs, s.root, s.known)
	if err != nil && !errors.Is(err, format.ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return s.listPartitions()
	}
	s.tag = &tag
	for i := range ns.Partitions {
		s.ids = append(s.ids, PartitionID(i))
	}
	if p, err := readFile(s.fs, filepath.Join(s.root, "clean"), format.MaxNote); err == nil {
		if ends, err := format.DecodeClean(p, tag, ns.Partitions); err == nil {
			s.ends = ends
		}
	}
	return nil
}

// listPartitions uses the existing directories as the list of partitions.
func (s *Survey) listPartitions() error {
	entries, err := s.fs.ReadDir(filepath.Join(s.root, "partitions"))
	if errors.Is(err, fs.ErrNotExist) { // gone as well; the directory itself must be there
		_, err = s.fs.ReadDir(s.root)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		var id PartitionID
		if _, err := fmt.Sscanf(e.Name, "%d", &id); err == nil && id < format.MaxPartitions && format.PartitionDir(id) == filepath.Join("partitions", e.Name) {
			s.ids = append(s.ids, id)
		}
	}
	return nil
}

// Partitions returns all partitions.
func (s *Survey) Partitions() []PartitionID { return s.ids }

// Close releases the directory.
func (s *Survey) Close() error { return s.lock.Close() }

// Partition calls found with every damaged place of one partition, in the order of the walk. An
// error of found ends the survey and is returned.
func (s *Survey) Partition(ctx context.Context, id PartitionID, found func(*CorruptError) error) (SurveyResult, error) {
	r := recovery{files: partitionFiles{s.fs, s.root, id, s.tagOf(id)}, boot: s.boot}
	if s.share {
		r.bound = new(bound)
	}
	if s.ends != nil {
		r.clean = &s.ends[id]
	}
	var before *CorruptError
	// a file in the place of another may also begin with a bad frame
	r.report = func(c *CorruptError) error {
		if before != nil && before.File == c.File && before.Offset == c.Offset {
			return nil
		}
		if before = c; s.share && r.wasMoved(c.File) {
			return fmt.Errorf("%w: partition %d: %s was removed", ErrChanged, id, c.File)
		}
		return found(c)
	}
	all, err := r.run(ctx)
	if err != nil {
		return SurveyResult{}, err
	}
	out := SurveyResult{Frames: all.report.Frames, Records: all.report.Records, Bytes: all.report.Bytes, Discarded: all.report.Discarded}
	p := partition{id: id, ckpts: all.ckpts}
	out.Checkpoints = p.Checkpoints()
	return out, nil
}

// tagOf returns the namespace's tag; the manifest's if namespace.json is damaged.
func (s *Survey) tagOf(id PartitionID) uint32 {
	if s.tag != nil {
		return *s.tag
	}
	p, err := partitionFiles{fs: s.fs, root: s.root, id: id}.readNote("manifest")
	if err != nil {
		return 0
	}
	return format.TagOf(p)
}

// OpenCheckpoint does the same as [Checkpoints.OpenCheckpoint] for the checkpoints that a survey
// lists.
func (s *Survey) OpenCheckpoint(c CheckpointInfo) (io.ReadCloser, error) {
	var id PartitionID
	if _, err := fmt.Sscanf(filepath.ToSlash(c.File), "partitions/%d/", &id); err != nil {
		return nil, err
	}
	p := &partition{store: &store{fs: s.fs, tag: s.tagOf(id)}, id: id, dir: filepath.Join(s.root, format.PartitionDir(id))}
	want, err := readCheckpoint(s.fs, filepath.Join(s.root, c.File), id, p.store.tag)
	if err != nil {
		return nil, err
	}
	p.ckpts = []format.Checkpoint{want}
	return p.OpenCheckpoint(c.LSN)
}
