package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

const censusHelp = "Reads only the index at the end of a sealed file, and every record of other files. Live data is found as at a\n" +
	"start of the broker, from the newest checkpoints and the log after them: bodies that messages still have,\n" +
	"their changed properties, and session states.\n"

func listCommand() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list the files of the log, their contents and their live data",
		ArgsUsage: "DIR",
		Description: censusHelp +
			"Prints a line for each file, oldest first. A file is hot (as written), sealed, kept for its bodies only, or\n" +
			"the base that the log begins with. The line has the addresses in the file, its size on disk and before\n" +
			"compression, its events and their times, the bytes of bodies that are kept, and how many of these are\n" +
			"live. csv and json have more columns.\n\n" +
			"   ledgerbus log ls ./data" + besideHelp,
		Flags:  []cli.Flag{output.Flag(), liveFlag()},
		Action: func(c *cli.Context) error { return takeCensus(c, printFiles) },
	}
}

func statCommand() *cli.Command {
	return &cli.Command{
		Name:      "stat",
		Usage:     "summarize the log by partition, entity and kind of event",
		ArgsUsage: "DIR",
		Description: censusHelp +
			"Bytes of events are bytes in records, before compression. A deleted entity has only a number, no name.\n" +
			"Events without an entity belong to the namespace. In csv and json the first field names the subject of the\n" +
			"line: partition, entity or event.\n\n" +
			"   ledgerbus log stat ./data\n   ledgerbus log stat -o json ./data" + besideHelp,
		Flags:  []cli.Flag{output.Flag(), liveFlag()},
		Action: func(c *cli.Context) error { return takeCensus(c, printSums) },
	}
}

// takeCensus counts the contents of the directory argument. It prints the available counts even if
// a partition is damaged.
func takeCensus(c *cli.Context, show func(*output.Printer, tools.Census) error) error {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	census, err := tools.Count(dir, beside(c))
	if len(census.Files) == 0 && err != nil {
		return err
	}
	return errors.Join(show(output.Of(c), census), err)
}

func fileRow(f tools.FileCount) print.Object {
	kind := "hot"
	switch {
	case f.Base:
		kind = "base"
	case f.Cold:
		kind = "bodies"
	case f.Sealed:
		kind = "sealed"
	}
	return print.Object{
		print.Named("partition", uint64(f.Partition)), print.Named("file", f.File), print.Named("kind", kind), print.Named("chapter", uint64(f.Chapter)), print.Named("first", uint64(f.First)),
		print.Named("end", uint64(f.End)), print.Named("stored", f.Stored), print.Named("raw", uint64(f.End-f.First)), print.Named("frames", f.Frames), print.Named("records", f.Records),
		print.Named("events", f.Events), moment("from", f.Lowest), moment("to", f.Highest), print.Named("bodyBytes", f.BodyBytes), print.Named("erasedBytes", f.ErasedBytes),
		print.Named("keptBytes", f.BodyBytes-f.ErasedBytes), print.Named("live", f.Live), print.Named("liveBytes", f.LiveBytes),
	}
}

func printFiles(out *output.Printer, census tools.Census) error {
	return output.Rows(out, census.Files, fileRow, "file", "kind", "first", "end", "stored", "raw", "events", "from", "to", "keptBytes", "live", "liveBytes")
}

// sum returns a line of log stat about one subject. Columns without a value are unknown.
func sum(of, name string, says ...print.Field) print.Object {
	r := print.Object{print.Named("of", of), print.Named("name", name)}
	for _, column := range []string{"files", "sealed", "stored", "raw", "events", "bytes", "bodies", "bodyBytes", "erasedBytes", "live", "liveBytes", "from", "to"} {
		f := print.Named(column, output.Unknown)
		if i := slices.IndexFunc(says, func(f print.Field) bool { return f.Name == column }); i >= 0 {
			f = says[i]
		}
		r = append(r, f)
	}
	return r
}

func partitionSums(census tools.Census) (rows []print.Object) {
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
		rows = append(rows, sum("partition", fmt.Sprint(id), print.Named("files", files), print.Named("sealed", sealed), print.Named("stored", stored), print.Named("raw", raw), print.Named("events", events),
			print.Named("bodyBytes", bodies), print.Named("erasedBytes", erased), print.Named("live", live), print.Named("liveBytes", liveBytes), moment("from", from), moment("to", to)))
	}
	return rows
}

func entitySums(census tools.Census) (rows []print.Object) {
	for _, e := range census.Entities {
		name := e.Path
		switch {
		case e.ID == 0:
			name = "(namespace)"
		case name == "":
			name = fmt.Sprintf("(entity %d)", e.ID)
		}
		rows = append(rows, sum("entity", name, print.Named("events", e.Events), print.Named("bytes", e.Bytes), print.Named("bodies", e.Bodies), print.Named("bodyBytes", e.BodyBytes),
			print.Named("live", e.Live), print.Named("liveBytes", e.LiveBytes)))
	}
	return rows
}

func kindSums(census tools.Census) (rows []print.Object) {
	for _, k := range census.Kinds {
		rows = append(rows, sum("event", k.Kind.String(), print.Named("events", k.Events), print.Named("bytes", k.Bytes)))
	}
	return rows
}

func printSums(out *output.Printer, census tools.Census) error {
	asItIs := func(r print.Object) print.Object { return r }
	partitions, entities, kinds := partitionSums(census), entitySums(census), kindSums(census)
	if out.Format != output.Text {
		return output.Rows(out, slices.Concat(partitions, entities, kinds), asItIs)
	}
	for i, t := range []struct {
		of      string // subject of the rows: the name of their first column
		rows    []print.Object
		columns []string
	}{
		{"partition", partitions, []string{"files", "sealed", "stored", "raw", "events", "bodyBytes", "erasedBytes", "live", "liveBytes", "from", "to"}},
		{"entity", entities, []string{"events", "bytes", "bodies", "bodyBytes", "live", "liveBytes"}},
		{"event", kinds, []string{"events", "bytes"}},
	} {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		for _, r := range t.rows {
			r[1].Name = t.of
		}
		if err := output.Rows(out, t.rows, asItIs, append([]string{t.of}, t.columns...)...); err != nil {
			return err
		}
	}
	return nil
}
