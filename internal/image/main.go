// Command image builds the files of a release: static binaries for Linux, and a container image
// with the broker for each architecture. The images are written as an OCI layout that holds all of
// them and as one archive each, which docker load and podman load accept. It needs Go and, for
// version and commit, git; no daemon. The same commit and the same release of Go produce the same
// bytes, whatever the machine and the directory.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	into := flag.String("into", "dist", "directory for the results; made when absent, its earlier results are replaced")
	architectures := flag.String("arch", "amd64,arm64", "architectures, with commas between them")
	version := flag.String("version", "", "version of the release; a tag of the commit when there is one, else development")
	repository := flag.String("name", "ledgerbus", "name of the image in the archives; its tag is the version, or latest without one")
	flag.Parse()
	if err := run(*into, strings.Split(*architectures, ","), *version, *repository); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(into string, architectures []string, version, repository string) error {
	from, err := sourceOf(".", version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	images := map[string]v1.Image{}
	for _, arch := range architectures {
		binary := filepath.Join(into, "ledgerbus-linux-"+arch)
		if err := buildBinary("ledgerbus", binary, arch, from); err != nil {
			return err
		}
		if err := buildBinary("ledgerbench", filepath.Join(into, "ledgerbench-linux-"+arch), arch, from); err != nil {
			return err
		}
		if images[arch], err = newImage(binary, arch, from); err != nil {
			return err
		}
		archive := binary + ".tar"
		if err := writeArchive(archive, images[arch], repository, from.version); err != nil {
			return err
		}
		if err := report(archive, images[arch]); err != nil {
			return err
		}
	}
	layout := filepath.Join(into, "oci")
	digest, err := writeLayout(layout, architectures, images)
	if err != nil {
		return err
	}
	fmt.Printf("%s  %s\n", digest, layout)
	return nil
}

// writeArchive writes an image in the format of docker save. It has one tag, because the library
// writes several in any order.
func writeArchive(file string, img v1.Image, repository, version string) error {
	if version == development {
		version = "latest"
	}
	tag, err := name.NewTag(repository + ":" + version)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, img)
}

// report prints the digest and the size of an image.
func report(archive string, img v1.Image) error {
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	fmt.Printf("%s  %s  %.1f MB\n", digest, archive, float64(info.Size())/1e6)
	return nil
}
