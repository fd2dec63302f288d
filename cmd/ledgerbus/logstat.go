package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
)

func censusFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "text, csv, or json for one object per line"}, liveFlag()}
}

const censusHelp = "Of a sealed file only the index at its end is read, of other files every record. What is live comes from the newest checkpoints and the\n" +
	"log after them, as at a start of the broker: bodies that messages still have, their changed properties, and states of sessions.\n"

func listCommand() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list the files of the log, what they hold and how much of it is live",
		ArgsUsage: "DIR",
		Description: censusHelp +
			"A line for each file, oldest first. A file is hot (as it was written), sealed, kept for its bodies alone, or the base that the log\n" +
			"begins with. The line has the addresses in the file, what it takes on the disk and took before it was compressed, its events and\n" +
			"their times, the bytes of bodies that are kept, and of those what is live. csv and json say more.\n\n" +
			"   ledgerbus log ls ./data\n" + besideHelp,
		Flags:  censusFlags(),
		Action: func(c *cli.Context) error { return takeCensus(c, printFiles) },
	}
}

func statCommand() *cli.Command {
	return &cli.Command{
		Name:      "stat",
		Usage:     "sum up what the log holds, by partition, entity and kind of event",
		ArgsUsage: "DIR",
		Description: censusHelp +
			"Bytes of events are those in records, before compression. A deleted entity has no name, only a number; what belongs to none is\n" +
			"that of the namespace. In csv and json the first field says what a line is about: partition, entity or event.\n\n" +
			"   ledgerbus log stat ./data\n   ledgerbus log stat -o json ./data\n" + besideHelp,
		Flags:  censusFlags(),
		Action: func(c *cli.Context) error { return takeCensus(c, printSums) },
	}
}

// takeCensus counts what is in the directory of a command, and prints what could be counted even where a partition is damaged.
func takeCensus(c *cli.Context, print func(io.Writer, format, tools.Census) error) error {
	f, ok := map[string]format{"text": formatTable, "json": formatJSON, "csv": formatCSV}[c.String("output")]
	if !ok {
		return usageError{fmt.Errorf("--output: %q is not one of text, json, csv", c.String("output"))}
	}
	dir, err := directory(c)
	if err != nil {
		return err
	}
	census, err := tools.Count(dir, beside(c))
	if len(census.Files) == 0 && err != nil {
		return err
	}
	return errors.Join(print(c.App.Writer, f, census), err)
}

func count(name string, n uint64) cell { return number(name, int64(n)) }

func fileRow(f *tools.FileCount) row {
	kind := "hot"
	switch {
	case f.Base:
		kind = "base"
	case f.Cold:
		kind = "bodies"
	case f.Sealed:
		kind = "sealed"
	}
	return row{
		count("partition", uint64(f.Partition)), text("file", f.File), text("kind", kind), count("chapter", uint64(f.Chapter)), count("first", uint64(f.First)), count("end", uint64(f.End)),
		number("stored", f.Stored), count("raw", uint64(f.End-f.First)), count("frames", f.Frames), count("records", f.Records), count("events", f.Events),
		moment("from", f.Lowest), moment("to", f.Highest), count("bodyBytes", f.BodyBytes), count("erasedBytes", f.ErasedBytes), count("keptBytes", f.BodyBytes-f.ErasedBytes),
		count("live", f.Live), count("liveBytes", f.LiveBytes),
	}
}

func printFiles(w io.Writer, f format, census tools.Census) error {
	rows := make([]row, len(census.Files))
	for i := range rows {
		rows[i] = fileRow(&census.Files[i])
	}
	return printRows(w, f, fileRow(&tools.FileCount{}), []string{"file", "kind", "first", "end", "stored", "raw", "events", "from", "to", "keptBytes", "live", "liveBytes"}, rows)
}

// sum is a line of log stat: what one thing has. Cells that say nothing of it are unknown.
func sum(of, name string, cells ...cell) row {
	r := row{text("of", of), text("name", name)}
	for _, column := range []string{"files", "sealed", "stored", "raw", "events", "bytes", "bodies", "bodyBytes", "erasedBytes", "live", "liveBytes", "from", "to"} {
		c := row(cells).find(column)
		if c.name == "" {
			c = unknown(column)
		}
		r = append(r, c)
	}
	return r
}

func partitionSums(census tools.Census) (rows []row) {
	for rest := census.Files; len(rest) > 0; {
		var files, sealed, stored, raw, events, bodies, erased, live, liveBytes uint64
		id, from, to := rest[0].Partition, event.Time(0), event.Time(0)
		for ; len(rest) > 0 && rest[0].Partition == id; rest = rest[1:] {
			f := &rest[0]
			files, stored, raw, events = files+1, stored+uint64(f.Stored), raw+uint64(f.End-f.First), events+f.Events
			bodies, erased, live, liveBytes = bodies+f.BodyBytes, erased+f.ErasedBytes, live+f.Live, liveBytes+f.LiveBytes
			if f.Sealed {
				sealed++
			}
			if from == 0 || f.Lowest > 0 && f.Lowest < from {
				from = f.Lowest
			}
			to = max(to, f.Highest)
		}
		rows = append(rows, sum("partition", fmt.Sprint(id), count("files", files), count("sealed", sealed), count("stored", stored), count("raw", raw), count("events", events),
			count("bodyBytes", bodies), count("erasedBytes", erased), count("live", live), count("liveBytes", liveBytes), moment("from", from), moment("to", to)))
	}
	return rows
}

func entitySums(census tools.Census) (rows []row) {
	for _, e := range census.Entities {
		name := e.Path
		switch {
		case e.ID == 0:
			name = "(namespace)"
		case name == "":
			name = fmt.Sprintf("(entity %d)", e.ID)
		}
		rows = append(rows, sum("entity", name, count("events", e.Events), count("bytes", e.Bytes), count("bodies", e.Bodies), count("bodyBytes", e.BodyBytes),
			count("live", e.Live), count("liveBytes", e.LiveBytes)))
	}
	return rows
}

func kindSums(census tools.Census) (rows []row) {
	for _, k := range census.Kinds {
		rows = append(rows, sum("event", k.Kind.String(), count("events", k.Events), count("bytes", k.Bytes)))
	}
	return rows
}

func printSums(w io.Writer, f format, census tools.Census) error {
	tables := []struct {
		rows    []row
		columns []string
	}{
		{partitionSums(census), []string{"name", "files", "sealed", "stored", "raw", "events", "bodyBytes", "erasedBytes", "live", "liveBytes", "from", "to"}},
		{entitySums(census), []string{"name", "events", "bytes", "bodies", "bodyBytes", "live", "liveBytes"}},
		{kindSums(census), []string{"name", "events", "bytes"}},
	}
	var all []row
	for i, t := range tables {
		if f != formatTable {
			all = append(all, t.rows...)
			continue
		}
		// The first column is what the rows are about, which their header says.
		for _, r := range t.rows {
			r[1].name = r[0].text
		}
		t.columns[0] = []string{"partition", "entity", "event"}[i]
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := printRows(w, f, nil, t.columns, t.rows); err != nil {
			return err
		}
	}
	if f == formatTable {
		return nil
	}
	return printRows(w, f, sum("", ""), nil, all)
}
