package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func partitionCommand() *cli.Command {
	const args = "N"
	return &cli.Command{
		Name:  "partition",
		Usage: "list, fence and restart the partitions of a broker's log",
		Description: "A partition that does not serve affects only its own traffic: its requests are refused as busy until it is\n" +
			"restarted. Works only with Ledgerbus brokers and needs a key with the right Manage.\n\n" +
			"   ledgerbus partition list",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "print the partitions and their state",
				Description: "States: serving (normal); fenced (out of service after a disk fault or ledgerbus partition fence); refused\n" +
					"(files are damaged or missing); starting (being restarted). Scrubbed is the time when the whole log of the\n" +
					"partition was last checked for damage (scrub-every).\n\n" +
					"   ledgerbus partition list\n   ledgerbus partition list -o json",
				Flags: connectionFlags(output.Flag()), Action: listPartitions,
			},
			{
				Name: "restart", Usage: "recover a partition that does not serve, and put it back into service", ArgsUsage: args,
				Description: "First correct the cause that keeps the partition from serving. Only this partition is recovered. This takes\n" +
					"as long as at a start of the broker, and continues if this command is interrupted. If it fails, the partition stays\n" +
					"as it is.\n\n" +
					"   ledgerbus partition restart 2 --reason INC-4711",
				Flags: connectionFlags(output.Flag(), reasonFlag()), Action: restartPartition,
			},
			{
				Name: "fence", Usage: "take a partition out of service", ArgsUsage: args,
				Description: "Requests to the partition are refused as busy. Requests in progress are completed; if a client got no answer,\n" +
					"its request may or may not have been carried out. Messages on their way into or out of the partition wait.\n" +
					"Nothing is lost. Partition 0 holds the catalogue and cannot be fenced.\n\n" +
					"   ledgerbus partition fence 2 --reason 'its volume is moved'",
				Flags: connectionFlags(output.Flag(), reasonFlag()), Action: fencePartition,
			},
		},
	}
}

func listPartitions(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	return administer(c, func(a *administration) error {
		all, err := a.Partitions(a.ctx)
		if err != nil {
			return err
		}
		out := output.Of(c)
		if err := output.Rows(out, all, partitionRow); err != nil || out.Format != output.Text {
			return err
		}
		return printNext(out, all)
	})
}

// printNext prints the next step for partitions that are damaged or out of service.
func printNext(w io.Writer, all []wire.Partition) error {
	for _, p := range all {
		if p.State == "serving" && p.Cause != "" {
			_, err := fmt.Fprintf(w, "next: list all damage with ledgerbus log verify; fence partition %d, restore the damaged data from a backup, then ledgerbus partition restart %[1]d\n", p.ID)
			return err
		}
		if p.State == "fenced" || p.State == "refused" {
			_, err := fmt.Fprintf(w, "next: correct the cause, then ledgerbus partition restart %d\n", p.ID)
			return err
		}
	}
	return nil
}

func restartPartition(c *cli.Context) error {
	return onPartition(c, func(a *administration, id int) (string, wire.Partition, error) {
		p, err := a.RestartPartition(a.ctx, id)
		return fmt.Sprintf("partition %d is %s", id, p.State), p, err
	})
}

func fencePartition(c *cli.Context) error {
	return onPartition(c, func(a *administration, id int) (string, wire.Partition, error) {
		p, err := a.FencePartition(a.ctx, id)
		return fmt.Sprintf("partition %d is %s; to undo: ledgerbus partition restart %d", id, p.State, id), p, err
	})
}

// onPartition changes the partition argument and prints its state, as a sentence or as a row.
func onPartition(c *cli.Context, do func(a *administration, id int) (string, wire.Partition, error)) error {
	id, err := strconv.ParseUint(c.Args().First(), 10, 16)
	if err != nil || c.Args().Len() != 1 {
		return usageError{fmt.Errorf("missing or invalid N; usage: %s N, with a number that ledgerbus partition list shows", c.Command.HelpName)}
	}
	return administer(c, func(a *administration) error {
		said, p, err := do(a, int(id))
		if err != nil {
			return err
		}
		return output.Of(c).Said(said, partitionRow(p))
	})
}

// partitionRow returns a partition as a row.
func partitionRow(p wire.Partition) print.Object {
	at := func(name string, t *time.Time) print.Field {
		if t == nil {
			return print.Named(name, output.Shown{})
		}
		return print.Named(name, when(t))
	}
	return print.Object{print.Named("id", p.ID), print.Named("state", p.State), at("since", p.Since), print.Named("cause", p.Cause), print.Named("by", p.By), at("scrubbed", p.Scrubbed)}
}
