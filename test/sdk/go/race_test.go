//go:build race

package sdkgo

func init() { race = true }
