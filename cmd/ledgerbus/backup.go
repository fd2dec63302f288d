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

// backupEvery is how often a backup that takes long says how far it is.
const backupEvery = 10 * time.Second

func backupCommand() *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "copy the data directory of a running broker to this machine",
		Description: "The copy is the directory as it was at one moment: everything accepted before is in it, and a message on its way between entities is in it\n" +
			"once. It is read over the port that the broker is managed on and verified as ledgerbus log verify does, and gets its name only when all is\n" +
			"well; until then it is DIR" + tools.PartialSuffix + ", which is removed if the backup fails. The broker goes on serving meanwhile. A broker started on the\n" +
			"copy continues from that moment: docs/guide/backup.md says what that means. Works only with Ledgerbus brokers, with a key that has the\n" +
			"right Manage. Whoever can read the copy can read all messages, and the keys of entities.\n\n" +
			"   ledgerbus backup --into /backups/monday\n   ledgerbus backup --into /backups/monday --reason 'before the upgrade'",
		Flags: connectionFlags(output.Flag(), reasonFlag(),
			&cli.StringFlag{Name: "into", Usage: "data directory to make: it must be empty or not exist yet"}),
		Action: backUp,
	}
}

func backUp(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	dir := c.String("into")
	if dir == "" {
		return usageError{errors.New("into which directory? ledgerbus backup --into DIR")}
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

// receiveBackup has a copy come in, and finishes it.
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
					fmt.Fprintf(progress, "backup: %d MiB of about %d MiB\n", in.Bytes>>20, b.Bytes>>20)
				}
			}}
		}
		return in.Put(name, size, contents)
	})
	if err != nil {
		return nil, err
	}
	if in.Bytes > 1<<30 {
		fmt.Fprintf(progress, "backup: all %d MiB are here and are verified now\n", in.Bytes>>20)
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

// progressReader calls tell when something was read.
type progressReader struct {
	io.Reader
	tell func()
}

func (t progressReader) Read(p []byte) (int, error) {
	t.tell()
	return t.Reader.Read(p)
}
