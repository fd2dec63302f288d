// Package program has the code that the programs of a release share.
package program

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker for releases.
var version string

// VersionCommand returns the command that prints the version of a program.
func VersionCommand(name string) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprintf(c.App.Writer, "%s %s %s %s/%s\n", name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// Version returns the release, or the revision from which the binary was built.
func Version() string {
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
