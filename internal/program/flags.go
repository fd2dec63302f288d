package program

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/internal/quantity"
)

// DurationOf returns the value of a flag whose value is a [quantity.DurationFlag].
func DurationOf(c *cli.Context, name string) time.Duration {
	return c.Generic(name).(*quantity.DurationFlag).Value
}

// SizeOf returns the value of a flag whose value is a [quantity.SizeFlag].
func SizeOf(c *cli.Context, name string) int {
	return int(c.Generic(name).(*quantity.SizeFlag).Value)
}
