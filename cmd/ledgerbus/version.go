package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker for releases.
var version string

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprintf(c.App.Writer, "ledgerbus %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// versionText is the release, or the revision the binary was built from.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "development"
	}
	text := info.Main.Version
	if text == "" || text == "(devel)" {
		text = "development"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && text == "development" {
			text = fmt.Sprintf("development (%.12s)", s.Value)
		}
	}
	return text
}
