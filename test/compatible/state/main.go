// Command state prints the state hash of a stopped data directory: of each partition after each
// frame of its log, and of each of its checkpoints with what the log has behind it.
//
//	go run ./test/compatible/state DIR
//
// The test of package compatible also builds it from the sources of another commit, so it uses only
// what old commits have.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "state: missing data directory")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "state:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, w io.Writer) error {
	s, err := log.Open(ctx, dir, log.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	for _, id := range s.Partitions() {
		p, err := s.Open(ctx, id)
		if err != nil {
			return err
		}
		if err := partition(ctx, p, w); err != nil {
			return fmt.Errorf("partition %d: %w", id, err)
		}
	}
	return nil
}

func partition(ctx context.Context, p log.Partition, w io.Writer) error {
	x := index.New()
	err := replay(ctx, p, 0, x, func(end event.LSN) {
		fmt.Fprintf(w, "partition %d LSN %d: %x\n", p.ID(), end, sha256.Sum256(x.Encode(nil)))
	})
	if err != nil {
		return err
	}
	for _, c := range p.Checkpoints() {
		x, err := load(p, c.LSN)
		if err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
		if err := replay(ctx, p, c.LSN, x, func(event.LSN) {}); err != nil {
			return err
		}
		_, end := p.Bounds()
		fmt.Fprintf(w, "checkpoint of partition %d at LSN %d: %x, then at LSN %d: %x\n", p.ID(), c.LSN, c.Hash, end, sha256.Sum256(x.Encode(nil)))
	}
	return nil
}

// load decodes the state of a checkpoint.
func load(p log.Partition, at event.LSN) (*index.Index, error) {
	r, err := p.OpenCheckpoint(at)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	src, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return index.Decode(src)
}

// replay applies what the log has from an LSN on, and says after each frame where that ends.
func replay(ctx context.Context, p log.Partition, from event.LSN, x *index.Index, after func(end event.LSN)) error {
	var dec event.Decoder
	for f, err := range p.Read(ctx, from) {
		if err != nil {
			return err
		}
		if f.Kind != log.Events {
			continue
		}
		rest := f.Records
		for range f.Count {
			var rec event.Record
			if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
				return err
			}
			for _, ev := range rec.Events {
				x.Apply(rec.At, ev)
			}
		}
		after(f.Next)
	}
	return nil
}
