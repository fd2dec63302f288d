package main

import (
	"fmt"
	"os"
	"regexp"
)

// Version is where the version of an SDK is pinned: the first group of the pattern in the file.
type Version struct{ Package, File, Pattern string }

// Read returns the pinned version.
func (v Version) Read() (string, error) {
	text, err := os.ReadFile(v.File)
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(v.Pattern).FindSubmatch(text)
	if match == nil {
		return "", fmt.Errorf("%s pins no version of %s", v.File, v.Package)
	}
	return string(match[1]), nil
}
