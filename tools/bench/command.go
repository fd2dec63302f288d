package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/tools/bench/floor"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// Commands returns the commands of ledgerbench.
func Commands() []*cli.Command {
	return []*cli.Command{
		loadCommand("send", "measure durable sends", Send, inFlightFlags, rateFlags),
		loadCommand("receive", "measure receiving and completing waiting messages", Receive, creditFlags),
		loadCommand("both", "measure sending and receiving at once", Both, inFlightFlags, rateFlags, creditFlags),
		suiteCommand(),
		floorCommand(),
		diskCommand(),
	}
}

func targetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "connection-string", Aliases: []string{"c"},
			Usage: "connection string of a Service Bus namespace. It contains a key: prefer the environment (not for the suite) [$LEDGERBUS_CONNECTION_STRING]",
		},
		&cli.StringFlag{Name: "url", Usage: "amqp://[USER:PASSWORD@]HOST[:PORT] or amqps://…, instead of a connection string"},
		&cli.BoolFlag{Name: "cbs", Usage: "with --url: USER and PASSWORD are the name and the value of the key that signs tokens for $cbs"},
		&cli.StringFlag{Name: "queue", Aliases: []string{"q"}, Value: "bench", Usage: "queue to use; waiting messages are removed from it"},
		&cli.StringFlag{Name: "from", DefaultText: "--queue", Usage: "queue to receive from, when --queue forwards to another one"},
		&cli.BoolFlag{Name: "plain", Usage: "use the client library unchanged, with one system call per frame, instead of grouping its frames"},
		&cli.IntFlag{Name: "server-pid", Usage: "process id of the server on this machine, to report its CPU time"},
		output.Flag(output.Text, output.JSON),
	}
}

func targetOf(c *cli.Context) (Target, error) {
	t := Target{ConnectionString: c.String("connection-string"), URL: c.String("url"), CBS: c.Bool("cbs"), Queue: c.String("queue"), From: c.String("from"), Plain: c.Bool("plain")}
	if c.IsSet("url") && c.IsSet("connection-string") {
		return Target{}, errors.New("bench: --url and --connection-string cannot be used together")
	}
	if t.URL == "" && t.ConnectionString == "" {
		t.ConnectionString = os.Getenv("LEDGERBUS_CONNECTION_STRING")
	}
	if t.URL == "" && t.ConnectionString == "" {
		return Target{}, errors.New("bench: missing broker; give --connection-string or --url")
	}
	return t, nil
}

// loadFlags returns new flags: one that was set keeps its value.
func loadFlags() []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "size", Usage: "size of a message's body", Value: &quantity.SizeFlag{Value: 1024}},
		&cli.Int64Flag{Name: "count", Usage: "number of messages to measure, instead of --duration"},
		&cli.GenericFlag{Name: "duration", Usage: "time to measure", Value: &quantity.DurationFlag{Value: 10 * time.Second}},
		&cli.GenericFlag{Name: "warmup", DefaultText: "a tenth of --duration", Usage: "time before the measurement", Value: new(quantity.DurationFlag)},
		&cli.IntFlag{Name: "connections", Value: 1, Usage: "connections for each direction"},
		&cli.IntFlag{Name: "links", Value: 1, Usage: "links per connection"},
	}
}

var (
	inFlightFlags = []cli.Flag{&cli.IntFlag{Name: "in-flight", Value: 64, Usage: "maximum number of unanswered sends in total"}}
	rateFlags     = []cli.Flag{&cli.Float64Flag{Name: "rate", Usage: "sends per second, to measure latency below saturation; 0: unlimited"}}
	creditFlags   = []cli.Flag{
		&cli.IntFlag{Name: "credit", Value: 1000, Usage: "credit of each receiving link"},
		&cli.IntFlag{Name: "acceptors", Value: 512, Usage: "maximum number of unanswered settlements in total"},
		&cli.BoolFlag{Name: "unanswered", Usage: "settle the messages of a link one by one, without waiting for answers"},
	}
)

func loadOf(c *cli.Context) Load {
	return Load{
		Size: program.SizeOf(c, "size"), InFlight: c.Int("in-flight"), Connections: c.Int("connections"), Links: c.Int("links"),
		Credit: c.Int("credit"), Acceptors: c.Int("acceptors"),
		Unanswered: c.Bool("unanswered"), Count: c.Int64("count"), Duration: program.DurationOf(c, "duration"),
		Warmup: program.DurationOf(c, "warmup"), Rate: c.Float64("rate"), ServerPID: c.Int("server-pid"),
	}
}

func loadCommand(name, usage string, measure func(context.Context, Target, Load) (Result, error), more ...[]cli.Flag) *cli.Command {
	flags := append(targetFlags(), loadFlags()...)
	for _, f := range more {
		flags = append(flags, f...)
	}
	return &cli.Command{
		Name: name, Usage: usage, Flags: flags,
		Action: func(c *cli.Context) error {
			target, err := targetOf(c)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			load := loadOf(c)
			var finish func()
			load.Progress, finish = progress(name, load.Count)
			result, err := measure(ctx, target, load)
			finish()
			if err != nil {
				return err
			}
			if out := output.Of(c); out.Format == output.JSON {
				return out.Value(result)
			}
			return result.print(c.App.Writer)
		},
	}
}

func suiteCommand() *cli.Command {
	return &cli.Command{
		Name: "suite", Usage: "measure the disk, a floor server and the broker in turn, and print a table",
		Description: "Starts a broker on a temporary data directory, unless --connection-string or --url names a running one. With\n" +
			"a running broker, memory and restarts are not measured. A short test run:\n\n" +
			"   ledgerbench suite --rounds 1 --duration 500ms --disk-duration 200ms --waiting 5000 --restarts 1",
		Flags: append(targetFlags(),
			&cli.IntFlag{Name: "rounds", Value: 3, Usage: "rounds of each measurement except memory and restarts; results are medians"},
			&cli.GenericFlag{Name: "duration", Usage: "duration of each measurement", Value: &quantity.DurationFlag{Value: 5 * time.Second}},
			&cli.GenericFlag{Name: "disk-duration", Usage: "duration of each measurement of the disk", Value: &quantity.DurationFlag{Value: time.Second}},
			&cli.GenericFlag{Name: "size", Usage: "size of a message's body", Value: &quantity.SizeFlag{Value: 1024}},
			&cli.IntSliceFlag{Name: "in-flight", Value: cli.NewIntSlice(1, 64, 512), Usage: "maximum number of unanswered sends; repeatable"},
			&cli.IntFlag{Name: "acceptors", Value: 512, Usage: "maximum number of unanswered settlements"},
			&cli.Float64Flag{Name: "rate", Value: 5000, Usage: "sends per second for latency below saturation; 0: not measured"},
			&cli.Int64Flag{Name: "waiting", Value: 1_000_000, Usage: "waiting messages for the measurements of memory and restarts; 0: skip these"},
			&cli.IntFlag{Name: "restarts", Value: 3, Usage: "restarts of each kind"},
			&cli.StringSliceFlag{Name: "stages", DefaultText: "all", Usage: "stages to run: " + strings.Join(Stages(), ", ")},
			&cli.StringFlag{Name: "dir", DefaultText: "the temporary directory", Usage: "directory on the disk to measure"},
			&cli.StringFlag{Name: "program", DefaultText: "ledgerbus next to this program, else in the PATH", Usage: "broker to start"},
		),
		Action: func(c *cli.Context) error {
			o := SuiteOptions{
				Rounds: c.Int("rounds"), Duration: program.DurationOf(c, "duration"), DiskDuration: program.DurationOf(c, "disk-duration"),
				Size: program.SizeOf(c, "size"), InFlight: c.IntSlice("in-flight"), Acceptors: c.Int("acceptors"), Waiting: c.Int64("waiting"),
				Restarts: c.Int("restarts"), Dir: c.String("dir"), Program: c.String("program"), ServerPID: c.Int("server-pid"), Plain: c.Bool("plain"),
				Stages: c.StringSlice("stages"),
				Log:    func(format string, args ...any) { fmt.Fprintf(c.App.ErrWriter, format+"\n", args...) },
			}
			if o.Waiting == 0 {
				o.Waiting = -1
			}
			if o.Rate = c.Float64("rate"); o.Rate == 0 {
				o.Rate = -1
			}
			if c.IsSet("url") || c.IsSet("connection-string") {
				t, err := targetOf(c)
				if err != nil {
					return err
				}
				o.Running = &t
			}
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			report, err := Suite(ctx, o)
			if err != nil {
				return err
			}
			report.Command = suiteText(c)
			if output.Of(c).Format == output.JSON {
				return report.JSON(c.App.Writer)
			}
			return report.Markdown(c.App.Writer)
		},
	}
}

// suiteText returns the command that repeats the run, without options that contain paths or a key.
func suiteText(c *cli.Context) string {
	text := "ledgerbench suite"
	for _, name := range []string{"rounds", "duration", "disk-duration", "size", "in-flight", "acceptors", "rate", "waiting", "restarts", "stages"} {
		if !c.IsSet(name) {
			continue
		}
		value := fmt.Sprint(c.Value(name))
		switch name {
		case "in-flight":
			value = strings.Trim(strings.ReplaceAll(fmt.Sprint(c.IntSlice(name)), " ", ","), "[]")
		case "stages":
			value = strings.Join(c.StringSlice(name), ",")
		}
		text += " --" + name + " " + value
	}
	if c.Bool("plain") {
		text += " --plain"
	}
	return text
}

// progress shows a progress bar on a terminal. A count of 0 means that the end is unknown.
func progress(what string, count int64) (show func(done int64), finish func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil, func() {}
	}
	if count == 0 {
		count = -1
	}
	bar := progressbar.NewOptions64(count, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"),
		progressbar.OptionClearOnFinish())
	// an error of the bar does not stop the work
	return func(done int64) { _ = bar.Set64(done) }, func() { _ = bar.Finish() }
}

func (r Result) print(w io.Writer) error {
	fmt.Fprintf(w, "%-18s %.0f/s (%d in %.2f s, %d bytes)\n", r.Mode, r.PerSecond, r.Messages, r.Seconds, r.Size)
	if r.Received != nil {
		fmt.Fprintf(w, "%-18s %.0f/s\n", "received", *r.Received)
	}
	for _, l := range []struct {
		name    string
		latency *Latency
	}{{"send latency", r.Send}, {"complete latency", r.Complete}, {"end to end", r.EndToEnd}} {
		if l.latency != nil {
			fmt.Fprintf(w, "%-18s p50 %v  p99 %v  p99.9 %v  max %v\n", l.name,
				short(l.latency.P50), short(l.latency.P99), short(l.latency.P999), short(l.latency.Max))
		}
	}
	if r.ServerCPU != nil {
		fmt.Fprintf(w, "%-18s %.2f s per million messages\n", "server CPU", *r.ServerCPU)
	}
	_, err := fmt.Fprintf(w, "%-18s %.2f s per million messages\n", "client CPU", r.ClientCPU)
	return err
}

// short rounds a duration to about three digits.
func short(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	case d >= 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond)
	}
	return d
}

// floorCommand returns the command that runs a floor server.
func floorCommand() *cli.Command {
	return &cli.Command{
		Name: "floor", Usage: "run a server for comparison that speaks the protocol and stores nothing",
		Description: "Prints its URL and runs until it is stopped. Every queue exists; receivers get an endless supply of empty\n" +
			"messages. With --keep it syncs sends and settlements in groups before it answers, and delivers the sent\n" +
			"messages from memory.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "HOST:PORT; port 0 picks a free one"},
			&cli.GenericFlag{Name: "size", Usage: "size of the body of messages for receivers", Value: &quantity.SizeFlag{Value: 1024}},
			&cli.StringFlag{Name: "keep", Usage: "DIRECTORY for a file of sends and settlements, which is removed at the end"},
			&cli.IntFlag{Name: "settle-range", Value: 16, Usage: "maximum number of settlements confirmed in one disposition"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			s, err := floor.Listen(c.String("listen"), floor.Options{MessageSize: program.SizeOf(c, "size"), SettleRange: c.Int("settle-range"),
				Dir: c.String("keep")})
			if err != nil {
				return err
			}
			fmt.Fprintln(c.App.Writer, s.URL())
			<-ctx.Done()
			return s.Close()
		},
	}
}

// diskCommand returns the command that measures plain durable writes.
func diskCommand() *cli.Command {
	return &cli.Command{
		Name: "fsync", Usage: "measure plain appends with fdatasync, the upper limit of durable sends",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Value: ".", Usage: "directory on the disk to measure"},
			&cli.GenericFlag{Name: "size", Usage: "size of a message", Value: &quantity.SizeFlag{Value: 1024}},
			&cli.IntSliceFlag{Name: "messages", Value: cli.NewIntSlice(1, 64, 512), Usage: "messages per write"},
			&cli.GenericFlag{Name: "duration", Usage: "duration of each measurement", Value: &quantity.DurationFlag{Value: 3 * time.Second}},
			output.Flag(output.Text, output.JSON),
		},
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			for _, n := range c.IntSlice("messages") {
				r, err := floor.Disk(ctx, c.String("dir"), n*program.SizeOf(c, "size"), program.DurationOf(c, "duration"))
				if err != nil {
					return err
				}
				if out := output.Of(c); out.Format == output.JSON {
					err = out.Value(r)
				} else {
					_, err = fmt.Fprintf(c.App.Writer, "%4d messages  %8d bytes  %8.0f writes/s  %9.0f messages/s  median %v  p99 %v\n",
						n, r.FrameBytes, r.PerSecond, r.PerSecond*float64(n), short(r.Median), short(r.P99))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}
