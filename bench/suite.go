package bench

import "github.com/urfave/cli/v2"

func suiteCommand() *cli.Command { return &cli.Command{Name: "suite"} }
