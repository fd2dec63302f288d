package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// backupEvery is the interval between progress messages of a backup.
const backupEvery = 10 * time.Second

func backupCommand() *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "copy the data directory of a running broker to this machine",
		Description: "The copy is the state of the directory at one moment. It contains everything accepted before that\n" +
			"moment, and each message on its way between entities exactly once. The command reads the directory\n" +
			"through the management port and verifies the copy as ledgerbus log verify does. The broker continues to\n" +
			"serve meanwhile. The copy is named DIR" + tools.PartialSuffix + " until it is complete and verified; it is removed if the backup\n" +
			"fails. A broker started on the copy continues from that moment: see docs/guide/backup.md.\n\n" +
			"Works only with Ledgerbus brokers and needs a key with the right Manage. Every user who can read the copy\n" +
			"can read all messages and the keys of entities.\n\n" +
			"   ledgerbus backup --into /backups/monday\n   ledgerbus backup --into /backups/monday --reason 'before the upgrade'",
		Flags: connectionFlags(output.Flag(), reasonFlag(),
			&cli.StringFlag{Name: "into", Usage: "data directory to create; it must be empty or not exist"}),
		Action: backUp,
	}
}

func backUp(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	dir := c.String("into")
	if dir == "" {
		return usageError{errors.New("missing --into; usage: ledgerbus backup --into DIR")}
	}
	return administer(c, func(a *administration) (err error) {
		in, err := tools.Receive(dir)
		if errors.Is(err, tools.ErrNotEmpty) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
		r, err := receiveBackup(a, in, c.App.ErrWriter)
		if err != nil {
			return errors.Join(err, in.Drop())
		}
		return output.Of(c).Said(fmt.Sprintf("%s is a copy of %s as of %v, verified: %v bytes, %v frames, %v records", filepath.Clean(dir), a.Host(),
			r[1].Value(), r[2].Value(), r[3].Value(), r[4].Value()), r)
	})
}

// receiveBackup receives and completes a copy.
func receiveBackup(a *administration, in *tools.Incoming, progress io.Writer) (print.Object, error) {
	b, err := a.Backup(a.ctx)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	said := time.Now()
	err = b.Files(func(name string, size int64, contents io.Reader) error {
		if contents != nil {
			contents = progressReader{contents, func() {
				if now := time.Now(); now.Sub(said) >= backupEvery {
					said = now
					fmt.Fprintf(progress, "backup: copied %d MiB of about %d MiB\n", in.Bytes>>20, b.Bytes>>20)
				}
			}}
		}
		return in.Put(name, size, contents)
	})
	if err != nil {
		return nil, err
	}
	if in.Bytes > 1<<30 {
		fmt.Fprintf(progress, "backup: copied all %d MiB; verifying them\n", in.Bytes>>20)
	}
	if err := a.ctx.Err(); err != nil {
		return nil, err
	}
	found, err := in.Finish(progress)
	if err != nil {
		return nil, err
	}
	return print.Object{print.Named("id", b.ID), print.Named("time", b.Time.Format("2006-01-02T15:04:05.000Z")), print.Named("bytes", in.Bytes),
		print.Named("frames", found.Frames), print.Named("records", found.Records)}, nil
}

// A progressReader calls tell before each read.
type progressReader struct {
	io.Reader
	tell func()
}

func (t progressReader) Read(p []byte) (int, error) {
	t.tell()
	return t.Reader.Read(p)
}
