// Command run shows what the Service Bus SDKs and clients of plain AMQP do with the broker: it runs
// their suites, each against a broker of its own, and prints a table of scenario by client.
//
//	go run ./test/sdk/run                                all suites whose runtime is installed and recent enough
//	go run ./test/sdk/run --sdk go,js --rounds 3         two of them, three times
//	go run ./test/sdk/run --sdk java --scenario peek-large
//	go run ./test/sdk/run --entities both                each SDK twice: on plain entities, and with every queue and topic partitioned
//	go run ./test/sdk/run --table docs/compatibility.md  and write the page
//	go run ./test/sdk/run --sdk js --rounds 0            only say whether the runtime is there
//	go run ./test/sdk/run --check docs/compatibility.md  only say whether the page has today's scenarios and versions
//
// What is to be shown stands in test/sdk/scenarios.json, once for all languages. A suite finds it,
// and all else, in its environment:
//
//	LEDGERBUS_CONNECTION_STRING        of the broker, over a proxy; every queue and topic of the list is there, new and empty
//	LEDGERBUS_TLS_CONNECTION_STRING    the same over TLS, which administration clients speak by themselves
//	LEDGERBUS_CA                       PEM file with the certificate that they have to trust
//	LEDGERBUS_CONTROL                  URL of the control API: POST /kill, POST /restart, POST /cut, POST /relay, GET /now (../lab)
//	LEDGERBUS_SCENARIOS                path of the list, with the scenarios of this suite alone
//	LEDGERBUS_ONLY                     ids to run, with commas between; empty: all
//	LEDGERBUS_PARTITIONED              1: every queue and topic has sixteen partitions, also those that scenarios make, unless they are of the group admin
//	LEDGERBUS_RESULTS                  file to which it appends a line per scenario when that has ended:
//	                                   {"id": "…", "result": "pass|fail|n/a", "error": "…", "seconds": 1.5}
//
// Nothing is tried again. A scenario without a result has failed; so has one that is n/a without a
// reason in the list, and a round of all suites that takes longer than it may. Anything that failed
// makes the exit code 1.
package main

import (
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/test/launch"
)

func main() {
	launch.Main(&cli.App{
		Name: "run", Usage: "run the suites of the Service Bus SDKs and of clients of plain AMQP",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "sdk", Usage: "suites to run, which must be installed", DefaultText: "all that are installed"},
			&cli.StringSliceFlag{Name: "scenario", Usage: "ids of the scenarios to run", DefaultText: "all"},
			&cli.StringFlag{Name: "entities", Usage: "what the scenarios of the SDKs run on: plain, partitioned, or both, one after the other", Value: plainEntities},
			&cli.IntFlag{Name: "rounds", Usage: "how often to run everything", Value: 1},
			&cli.StringFlag{Name: "table", Usage: "file for the page of what was shown"},
			&cli.StringFlag{Name: "check", Usage: "file with such a page: fail unless it is that of today's scenarios and versions, all shown; run nothing"},
			&cli.StringFlag{Name: "binary", Usage: "the broker", Value: "bin/ledgerbus"},
			&cli.DurationFlag{Name: "timeout", Usage: "how long one run of one suite may take", Value: 10 * time.Minute},
		},
		Action: func(c *cli.Context) error {
			return run(c.Context, options{
				SDKs: c.StringSlice("sdk"), Scenarios: c.StringSlice("scenario"), Entities: c.String("entities"), Rounds: c.Int("rounds"), Table: c.String("table"), Check: c.String("check"),
				Binary: c.String("binary"), Timeout: c.Duration("timeout"), CI: os.Getenv("CI") == "true",
			}, c.App.Writer)
		},
	})
}
